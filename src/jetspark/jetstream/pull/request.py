"""Pull requests: their target and their contents. All modules that pull build their requests here."""

from __future__ import annotations

from itertools import repeat
from typing import NamedTuple, Self

from jetspark.core.connection import Connection
from jetspark.core.numbers import check_count, check_seconds
from jetspark.errors import ConnectionClosed, UsageError
from jetspark.jetstream.api import API, CONSUMER_NEXT
from jetspark.jetstream.manage.presence import Presence
from jetspark.jetstream.message.delivered import JetStreamMsg, give_back
from jetspark.jetstream.model.consumer import AckPolicy
from jetspark.jetstream.model.requests import PullRequest
from jetspark.jetstream.pull.options import BATCH_FOR_BYTES, default_heartbeat
from jetspark.jetstream.timing import Timing
from jetspark.wire import MsgFrame, pub

__all__ = ["PullTarget", "fetch_request", "no_wait_request", "shortened"]


class PullTarget(NamedTuple):
    """The consumer that pull requests go to, and the acknowledgement policy of its messages."""

    connection: Connection
    subject: str
    ack_policy: AckPolicy | str
    #: Prefix of the request's JSON: `+NXT ` when it is sent to an acknowledgement subject.
    verb: bytes = b""
    #: Stream and consumer in the replies of its messages, as `ORDERS.worker`; empty when they are not known.
    names: bytes = b""
    #: Looks the consumer up when it does not answer; None when nothing depends on it.
    presence: Presence | None = None
    #: The waits of its requests.
    timing: Timing = Timing()

    @classmethod
    def of(
        cls,
        api: API,
        stream: str,
        consumer: str,
        ack_policy: AckPolicy | str,
        presence: Presence | None = None,
    ) -> Self:
        """The target of a consumer. Raises `UsageError` for an invalid name."""
        subject = api.subject(CONSUMER_NEXT, stream=stream, consumer=consumer)
        names = api.names_in_replies(stream, consumer)
        return cls(api.connection, subject, ack_policy, names=names, presence=presence, timing=api.timing)

    @property
    def loses_requests(self) -> bool:
        """Whether a request may get lost silently, as in the election of a leader."""
        own = self.subject.startswith(("$JS.API.", "$JS.ACK."))
        return not own or bool(self.connection.server_info.cluster)

    @property
    def settled(self) -> bool:
        """Whether messages need no acknowledgement."""
        return self.ack_policy == AckPolicy.NONE

    def check_open(self) -> None:
        """Raise `ConnectionClosed` when the connection is closed."""
        if self.connection.closed:
            raise ConnectionClosed("the connection is closed")

    def send(self, request: PullRequest, reply: bytes) -> None:
        """Send a request. It belongs to the session: after a reconnect it has to be sent again."""
        payload = self.verb + request.to_json()
        self.connection.session.outbox.write_control(
            pub(self.subject.encode("utf-8", "surrogateescape"), reply, payload)
        )

    def messages(self, frames: list[MsgFrame]) -> list[JetStreamMsg]:
        """The messages that users get."""
        kind = self.connection.class_of(JetStreamMsg)
        return list(map(kind, frames, repeat(self.connection), repeat(self.settled)))

    def give_back(self, frames: list[MsgFrame]) -> None:
        """Return unhandled messages to the server."""
        give_back(self.connection, self.ack_policy, frames)


def fetch_request(
    max_messages: int | None,
    max_bytes: int | None,
    *,
    expires: float,
    timeout: float | None = None,
    idle_heartbeat: float | None,
    group: str | None = None,
    priority: int | None = None,
    min_pending: int | None = None,
    min_ack_pending: int | None = None,
) -> PullRequest:
    """A request that waits for messages. `timeout` is an alias of `expires` and replaces it.

    Raises `UsageError` for invalid options.
    """
    if max_messages is None and max_bytes is None:
        raise UsageError("give max_messages or max_bytes, or both")
    _check_limits(max_messages, max_bytes)
    option, expires = ("expires", expires) if timeout is None else ("timeout", timeout)
    check_seconds(option, expires, endless=False)
    return PullRequest(
        batch=BATCH_FOR_BYTES if max_messages is None else max_messages,
        max_bytes=max_bytes,
        expires=expires,
        idle_heartbeat=idle_heartbeat,
        group=group,
        priority=priority,
        min_pending=min_pending,
        min_ack_pending=min_ack_pending,
    )


def no_wait_request(
    max_messages: int,
    *,
    max_bytes: int | None = None,
    group: str | None = None,
    priority: int | None = None,
    min_pending: int | None = None,
    min_ack_pending: int | None = None,
) -> PullRequest:
    """A request for messages that are available now. Raises `UsageError` for invalid options."""
    _check_limits(max_messages, max_bytes)
    return PullRequest(
        batch=max_messages,
        max_bytes=max_bytes,
        no_wait=True,
        group=group,
        priority=priority,
        min_pending=min_pending,
        min_ack_pending=min_ack_pending,
    )


def _check_limits(max_messages: int | None, max_bytes: int | None) -> None:
    for option, value in (("max_messages", max_messages), ("max_bytes", max_bytes)):
        if value is not None:
            check_count(option, value)


def shortened(request: PullRequest, expires: float) -> dict[str, object]:
    """The changes that let a request expire earlier; the heartbeat must fit into half of the time."""
    changes: dict[str, object] = {"expires": expires}
    if request.idle_heartbeat:
        changes["idle_heartbeat"] = min(request.idle_heartbeat, default_heartbeat(expires))
    return changes
