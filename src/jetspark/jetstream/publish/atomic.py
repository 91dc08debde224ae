"""Atomic batches: a stream stores all messages, in order and with no others between them, or none.

Requires server 2.12 and a stream with `allow_atomic`. A batch has an id, each message a number, and the last
message a mark. The first is sent as a request, so that a stream without `allow_atomic` refuses it at once;
the server checks the others when the last has arrived. It drops a batch whose last message does not arrive
within 10 seconds.
"""

from __future__ import annotations

import secrets
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, Unpack

from jetspark.core.headers import add_lines, header_block, header_lines
from jetspark.core.message import as_bytes, too_large
from jetspark.core.numbers import check_seconds
from jetspark.core.server_info import Feature
from jetspark.errors import BatchPublishError, ConnectionLost, Error, Timeout, UsageError
from jetspark.jetstream.model.requests import PubAck, is_from_stream, parse_pub_ack
from jetspark.jetstream.publish.attempts import is_temporary_refusal, repeat_for
from jetspark.jetstream.publish.headers import Expectations, compose_headers
from jetspark.wire.headers import HeadersLike
from jetspark.wire.subjects import check_subject

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["MAX_MESSAGES", "AtomicBatch"]

#: The limit of the server.
MAX_MESSAGES: Final = 1000
_ID: Final = "Nats-Batch-Id"
_SEQUENCE: Final = "Nats-Batch-Sequence"
_COMMIT: Final = "Nats-Batch-Commit"
#: The batch is incomplete: the leader changed, or the connection broke.
_INCOMPLETE: Final = 10176
_NEEDS: Final = f"Requires nats-server {Feature.ATOMIC_BATCH.since} or later"


#: The longest headers that the batch adds to a message, and the mark of the last one.
_LONGEST: Final = header_lines({_ID: "x" * 22, _SEQUENCE: str(MAX_MESSAGES), _COMMIT: "1"})
_LAST: Final = header_lines({_COMMIT: "1"})


class _Message(NamedTuple):
    subject: str
    data: bytes
    #: The encoded headers, without those of the batch; empty for none.
    block: bytes


class AtomicBatch:
    """Messages that a stream stores together or not at all. Made by `js.atomic_batch`; a context manager.

    Leaving the context commits, unless nothing was added or `commit` was called; when the body raises,
    nothing is sent. A `commit` that raises has stored nothing and may be called again. The exceptions are
    `ConnectionLost` and `Timeout`, after which that is unknown. If the messages have ids, `commit` may be
    called again even then: a stream that has one of the ids refuses the whole batch with `BatchPublishError`
    10201, so nothing is stored twice.
    """

    def __init__(self, api: API, *, timeout: float | None = None, retry_for: float = 15.0) -> None:
        self._api = api
        self._timeout = api.timeout if timeout is None else timeout
        self._retry_for = retry_for
        check_seconds("timeout", self._timeout)
        check_seconds("retry_for", retry_for, zero=True)
        self._messages: list[_Message] = []
        #: Whether `commit` was called, and whether its last attempt reached the last message.
        self._tried = False
        self._finishing = False
        #: The acknowledgement of the batch; None until it is committed.
        self.ack: PubAck | None = None

    def __len__(self) -> int:
        return len(self._messages)

    def add(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        msg_id: str | None = None,
        **expectations: Unpack[Expectations],
    ) -> None:
        """Add a message, which `commit` sends.

        Raises `UsageError` for an invalid argument, for more than 1000 messages, and after `commit`;
        `MaxPayloadError`. All subjects must belong to the same stream. `expected_last_sequence` is for the
        first message only, and the server refuses `expected_last_msg_id` in a batch.
        """
        self._raise_if_full()
        check_subject(subject)
        data = as_bytes(data)
        fields = compose_headers(headers, msg_id, expectations)
        for name in fields:
            if name.lower().startswith("nats-batch-"):
                raise UsageError(f"headers: {name!r} is reserved, the batch sets it")
        self.add_block(subject, data, header_block(fields))

    def add_block(self, subject: str, data: bytes, block: bytes) -> None:
        """`add` with a header block that is encoded, and with arguments that are checked, already."""
        self._raise_if_full()
        size = len(add_lines(block, _LONGEST)) + len(data)
        max_payload = self._api.connection.max_payload
        if size > max_payload:
            raise too_large(size, max_payload)
        self._messages.append(_Message(subject, data, block))

    async def commit(self) -> PubAck:
        """Publish the batch and return its acknowledgement: the last sequence, `batch_id`, `batch_size`.

        Repeats it for `retry_for` seconds while the stream has no leader, and when the connection breaks or
        the leader changes before the last message was sent.

        Raises `BatchPublishError` with the reason, `WrongLastSequence` and other `APIError` when the stream
        refuses the batch, `NoStreamForSubject`, `NoResponders`; `UsageError` without messages, and after a
        commit that succeeded. After `ConnectionLost` and `Timeout` the hint says whether the batch may be
        stored.
        """
        self._raise_if_committed()
        if not self._messages:
            raise UsageError("the batch has no messages")
        if not await self._api.supports(Feature.ATOMIC_BATCH):  # It would store each message separately.
            raise BatchPublishError(
                "the server does not support atomic batches",
                description="atomic publish is not supported",
                hint=_NEEDS,
            )
        self._tried = True
        subject = self._messages[0].subject
        self.ack = await repeat_for(
            self._api,
            subject,
            lambda _: self._attempt(),
            self._may_repeat,
            seconds=self._retry_for,
            timeout=self._timeout,
        )
        return self.ack

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._messages and not self._tried:
            await self.commit()

    async def _attempt(self) -> PubAck:
        """One attempt, with its own id: the server may still have a part of the previous one."""
        self._finishing = False
        batch_id = secrets.token_urlsafe(16)
        size = len(self._messages)
        if size > 1:
            late = f"the stream of {self._messages[0].subject!r} did not answer"
            hint = "Nothing of the batch is stored"
            answer = await self._request(batch_id, 1, late, "at the start of a batch", hint)
            if answer:
                raise _stored_singly(parse_pub_ack(answer))
        publish = self._api.connection.publish_block
        lines = _lines(batch_id)
        for number, message in enumerate(self._messages[1:-1], start=2):
            block = add_lines(message.block, lines % number)
            await publish(message.subject, message.data, block)
        self._finishing = True
        late, broken = "the batch was not acknowledged", "before the batch was acknowledged"
        hint = "Whether it is stored is unknown. Publish it again only if its messages have ids"
        ack = parse_pub_ack(await self._request(batch_id, size, late, broken, hint))
        if ack.batch_id != batch_id or ack.batch_size != size:
            raise _stored_singly(ack)
        return ack

    async def _request(self, batch_id: str, number: int, late: str, broken: str, hint: str) -> bytes:
        """The answer to a message; `late` and `broken` are the texts of `Timeout` and `ConnectionLost`."""
        message = self._messages[number - 1]
        last = number == len(self._messages)
        lines = _lines(batch_id) % number + (_LAST if last else b"")
        block = add_lines(message.block, lines)
        try:
            answer = await self._api.connection.request_block(
                message.subject,
                message.data,
                block,
                timeout=self._timeout,
                accepts=is_from_stream if last else _is_first_answer,
            )
        except Timeout as error:
            raise Timeout(f"{late} within {self._timeout} s", hint=hint) from error
        except ConnectionLost as error:
            raise ConnectionLost(f"the connection broke {broken}", hint=hint) from error
        return answer.data

    def _may_repeat(self, error: Error) -> bool:
        """Whether nothing is stored, and the next attempt may succeed."""
        if isinstance(error, ConnectionLost):
            return not self._finishing
        incomplete = isinstance(error, BatchPublishError) and error.err_code == _INCOMPLETE
        return incomplete or is_temporary_refusal(error)

    def _raise_if_full(self) -> None:
        """Raise `UsageError` unless a message can be added."""
        self._raise_if_committed()
        if len(self._messages) >= MAX_MESSAGES:
            raise UsageError(
                f"a batch has at most {MAX_MESSAGES} messages", hint="Commit it, and start another"
            )

    def _raise_if_committed(self) -> None:
        if self.ack is not None:
            raise UsageError("the batch is already committed", hint="Start another with js.atomic_batch()")


def _is_first_answer(answer: bytes) -> bool:
    """Whether a stream sent it: the answer to the first message is empty if the batch may continue."""
    return not answer or is_from_stream(answer)


def _lines(batch_id: str) -> bytes:
    """The headers of a batch, with a place for the number of the message."""
    return header_lines({_ID: batch_id, _SEQUENCE: "%d"})


def _stored_singly(ack: PubAck) -> BatchPublishError:
    """The error when the stream's leader does not support batches, though the connected server does."""
    return BatchPublishError(
        f"the leader of stream {ack.stream} does not support atomic batches: "
        f"it stored one of the messages separately, as sequence {ack.sequence}",
        description="atomic publish is not supported",
        stream=ack.stream,
        hint=_NEEDS,
    )
