"""The JetStream API: every subject it has, and the envelope of requests and answers.

No other module writes `$JS.API`. A call returns the JSON object of the answer or raises `APIError`;
`model/info.py` and `model/requests.py` parse the object. Retries follow `retry.py`.
"""

from __future__ import annotations

import logging
import reprlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jetspark.core.headers import header_block
from jetspark.core.numbers import check_seconds
from jetspark.core.request import not_sent
from jetspark.core.server_info import Feature
from jetspark.errors import (
    APIError,
    ConnectionLost,
    JetStreamNotEnabled,
    MessageNotFound,
    NoResponders,
    NotSent,
    PermissionsViolation,
    RemoteProtocolError,
    Timeout,
    UsageError,
)
from jetspark.jetstream.inbox import Inbox
from jetspark.jetstream.model.base import Model, decode_object
from jetspark.jetstream.model.info import AccountInfo, api_error
from jetspark.jetstream.model.requests import StreamListRequest
from jetspark.jetstream.retry import Backoff
from jetspark.jetstream.timing import Timing
from jetspark.wire.subjects import check_name, check_subject, check_text

if TYPE_CHECKING:
    from jetspark.core.connection import Connection

__all__ = ["API", "DEFAULT_PREFIX", "APIAnswer", "Endpoint", "Page", "total_of"]

logger = logging.getLogger("jetspark")

DEFAULT_PREFIX: Final = "$JS.API"
_REQUIRED_LEVEL: Final = "Nats-Required-Api-Level"


class Endpoint(NamedTuple):
    """A subject of the API, after the prefix."""

    subject: str
    #: Whether any request can be repeated without a further effect. One that comes late, after its repetition
    #: was answered, must not have one either: it would delete what was created or stored since then.
    safe: bool = False
    #: The refusal of a repeated request whose first attempt succeeded.
    done: type[APIError] | tuple[()] = ()
    #: The entries of its pages: names, or objects.
    lists: type = dict
    #: The level of the API that has it.
    level: int = 0


class APIAnswer(NamedTuple):
    """The answer to a request."""

    data: bytes
    #: Whether the answer to an earlier attempt was lost: that one may have succeeded.
    repeated: bool


class Page(NamedTuple):
    """A part of a list."""

    entries: list[Any]
    #: Entries from the start of this page to that of the next; 0 in an empty page.
    step: int
    #: Entries of the whole list.
    total: int
    #: Names of entries that are not in the page, though they count: no leader answered for them.
    missing: list[str]


ACCOUNT_INFO: Final = Endpoint("INFO", safe=True)
STREAM_CREATE: Final = Endpoint("STREAM.CREATE.{stream}", safe=True)
STREAM_UPDATE: Final = Endpoint("STREAM.UPDATE.{stream}")
STREAM_INFO: Final = Endpoint("STREAM.INFO.{stream}", safe=True)
STREAM_DELETE: Final = Endpoint("STREAM.DELETE.{stream}")
STREAM_PURGE: Final = Endpoint("STREAM.PURGE.{stream}")
STREAM_NAMES: Final = Endpoint("STREAM.NAMES", safe=True, lists=str)
STREAM_LIST: Final = Endpoint("STREAM.LIST", safe=True)
STREAM_SNAPSHOT: Final = Endpoint("STREAM.SNAPSHOT.{stream}")
STREAM_RESTORE: Final = Endpoint("STREAM.RESTORE.{stream}")
STREAM_STEPDOWN: Final = Endpoint("STREAM.LEADER.STEPDOWN.{stream}")
MSG_GET: Final = Endpoint("STREAM.MSG.GET.{stream}", safe=True)
MSG_DELETE: Final = Endpoint("STREAM.MSG.DELETE.{stream}", safe=True, done=MessageNotFound)
DIRECT_GET: Final = Endpoint("DIRECT.GET.{stream}", safe=True)
DIRECT_GET_LAST: Final = Endpoint("DIRECT.GET.{stream}.{subject}", safe=True)
CONSUMER_CREATE: Final = Endpoint("CONSUMER.CREATE.{stream}.{consumer}")
CONSUMER_CREATE_FILTERED: Final = Endpoint("CONSUMER.CREATE.{stream}.{consumer}.{subject}")
CONSUMER_CREATE_UNNAMED: Final = Endpoint("CONSUMER.CREATE.{stream}")
CONSUMER_CREATE_DURABLE: Final = Endpoint("CONSUMER.DURABLE.CREATE.{stream}.{consumer}")
CONSUMER_INFO: Final = Endpoint("CONSUMER.INFO.{stream}.{consumer}", safe=True)
CONSUMER_DELETE: Final = Endpoint("CONSUMER.DELETE.{stream}.{consumer}")
CONSUMER_NAMES: Final = Endpoint("CONSUMER.NAMES.{stream}", safe=True, lists=str)
CONSUMER_LIST: Final = Endpoint("CONSUMER.LIST.{stream}", safe=True)
CONSUMER_PAUSE: Final = Endpoint("CONSUMER.PAUSE.{stream}.{consumer}", level=1)
CONSUMER_RESET: Final = Endpoint("CONSUMER.RESET.{stream}.{consumer}", level=Feature.CONSUMER_RESET.level)
CONSUMER_UNPIN: Final = Endpoint("CONSUMER.UNPIN.{stream}.{consumer}", level=1)
CONSUMER_STEPDOWN: Final = Endpoint("CONSUMER.LEADER.STEPDOWN.{stream}.{consumer}")
CONSUMER_NEXT: Final = Endpoint("CONSUMER.MSG.NEXT.{stream}.{consumer}")


class API:
    """The JetStream API of one account, reached through one connection."""

    def __init__(
        self,
        connection: Connection,
        *,
        domain: str | None,
        api_prefix: str | None,
        timeout: float,
        timing: Timing | None = None,
    ) -> None:
        if domain is not None and api_prefix is not None:
            raise UsageError("domain and api_prefix exclude each other: a domain is a prefix")
        check_seconds("timeout", timeout)
        if domain is not None:
            self.prefix = f"$JS.{check_name(domain, 'domain')}.API"
        else:
            self.prefix = check_text(api_prefix or DEFAULT_PREFIX, "api_prefix").rstrip(".")
            check_subject(self.prefix, "api_prefix")
        self.domain = domain
        self.timeout = timeout
        #: The waits of everything that uses this API.
        self.timing = Timing() if timing is None else timing
        self.connection = connection
        # The server that was asked for the level of the API, and the level.
        self._level: tuple[str, int] | None = None

    def subject(self, endpoint: Endpoint, *, stream: str = "", consumer: str = "", subject: str = "") -> str:
        """The whole subject of an endpoint. Raises `UsageError` for a name that is not a valid token."""
        if "{stream}" in endpoint.subject:
            check_name(stream, "stream")
        if "{consumer}" in endpoint.subject:
            check_name(consumer, "consumer")
        return f"{self.prefix}.{endpoint.subject.format(stream=stream, consumer=consumer, subject=subject)}"

    def names_in_replies(self, stream: str, consumer: str) -> bytes:
        """The names in the replies of a consumer's messages, as `ORDERS.worker`; empty if they are not known.

        Behind a prefix that the user chose are imports, which may change the names.
        """
        known = self.domain is not None or self.prefix == DEFAULT_PREFIX
        return f"{stream}.{consumer}".encode() if known else b""

    async def call(
        self,
        endpoint: Endpoint,
        body: Model | None = None,
        *,
        stream: str = "",
        consumer: str = "",
        subject: str = "",
        safe: bool = False,
        timeout: float | None = None,
        while_draining: bool = False,
    ) -> dict[str, Any]:
        """Send a request and return the JSON object of its answer.

        `safe` says that this request can be repeated though others of the endpoint cannot. `while_draining`
        allows it on a draining connection.

        Raises `APIError` when the server refuses, `JetStreamNotEnabled` when no server answers, `Timeout`,
        `RemoteProtocolError` for an invalid answer, and for requests that are not safe `ConnectionLost`.
        """
        target = self.subject(endpoint, stream=stream, consumer=consumer, subject=subject)
        payload = body.to_json() if body is not None else b""
        data, repeated = await self.ask(
            target,
            payload,
            safe=safe or endpoint.safe,
            timeout=timeout,
            while_draining=while_draining,
            level=max(endpoint.level, 0 if body is None else body.api_level),
        )
        answer = decode_object(data)
        error = answer.get("error")
        if error is not None:
            refusal = api_error(error, stream=stream or None, consumer=consumer or None)
            if not (repeated and isinstance(refusal, endpoint.done)):
                raise refusal
        return answer

    async def pages(
        self, endpoint: Endpoint, key: str, *, stream: str = "", subject: str | None = None
    ) -> AsyncIterator[Any]:
        """Each entry of the list `key` in the answers of `endpoint`, asking for the next page when needed.

        The server counts from the start for every page: entries created or deleted meanwhile may be missed.
        It ends at a page that repeats the one before it, whatever the total: the server ignores the offset.
        """
        offset = 0
        last: Page | None = None
        while True:
            page = await self.page(endpoint, key, offset, stream=stream, subject=subject)
            if last is not None and (page.entries, page.missing) == (last.entries, last.missing):
                return
            for entry in page.entries:
                yield entry
            offset += page.step
            if not page.step or offset >= page.total:
                return
            last = page

    async def page(
        self,
        endpoint: Endpoint,
        key: str,
        offset: int,
        *,
        stream: str = "",
        subject: str | None = None,
        timeout: float | None = None,
    ) -> Page:
        """One page of the list `key`, from the entry `offset` on."""
        request = StreamListRequest(subject=subject, offset=offset)
        answer = await self.call(endpoint, request, stream=stream, timeout=timeout)
        entries, missing = _list(answer, key, endpoint.lists), _list(answer, "missing", str)
        if missing:
            logger.warning("not listed, because no leader answered: %s", ", ".join(missing))
        step = max(_count(answer, "limit") or len(entries), 1) if entries or missing else 0
        return Page(entries, step, total_of(answer), missing)

    async def supports(self, feature: Feature) -> bool:
        """Whether the JetStream that this API reaches has a feature. Raises what `call` raises.

        The server of the connection answers that in its INFO, unless JetStream is elsewhere: behind a leaf
        node, in another domain or account. Where that one may not be asked, the server of the connection
        stands for it.
        """
        info = self.connection.server_info
        if self.prefix == DEFAULT_PREFIX and info.jetstream:
            return info.supports(feature)
        if self._level is None or self._level[0] != info.server_id:
            try:
                level = AccountInfo.from_wire(await self.call(ACCOUNT_INFO)).api.level
            except (PermissionsViolation, JetStreamNotEnabled):
                level = info.api_level
            self._level = info.server_id, level
        return self._level[1] >= feature.level

    async def ask(
        self,
        subject: str,
        payload: bytes,
        *,
        safe: bool,
        timeout: float | None,
        while_draining: bool = False,
        level: int = 0,
    ) -> APIAnswer:
        """The answer to a request. Repeated while no server answers; a `safe` request after any loss.

        A server whose API has a lower `level` refuses the request (ADR-44). One from before 2.12 does not
        know that rule.
        """
        block = header_block({_REQUIRED_LEVEL: str(level)}) if level else b""
        seconds = self.timeout if timeout is None else timeout
        backoff = Backoff(seconds)
        repeated = False
        while True:
            wait = min(backoff.left, self.timing.silence) if safe else backoff.left
            try:
                data = await self._request(subject, payload, block, wait, while_draining)
                return APIAnswer(data, repeated)
            except Timeout as error:
                repeated = repeated or not isinstance(error, NotSent)
                if not safe or backoff.left <= 0:
                    raise (_no_answer if repeated else not_sent)(subject, seconds) from None
            except NoResponders:
                # A server that starts accepts clients before it has JetStream. Its INFO says nothing about
                # other domains and accounts.
                possible = self.connection.server_info.jetstream or self.prefix != DEFAULT_PREFIX
                if not possible or not await backoff.pause():
                    raise JetStreamNotEnabled(
                        f"no server answers on {subject!r}",
                        code=503,
                        description="no responders",
                        hint="Start nats-server with -js, or check `domain` and the account",
                    ) from None
            except ConnectionLost:
                # Repeated at once: the next request waits until the connection is back.
                if not safe:
                    raise
                repeated = True

    async def _request(
        self, subject: str, payload: bytes, block: bytes, timeout: float, while_draining: bool
    ) -> bytes:
        if "*" not in subject and ">" not in subject and not (while_draining and self.connection.draining):
            return (await self.connection.request_block(subject, payload, block, timeout=timeout)).data
        # The multiplexed inbox refuses a subject with wildcards, which here are part of a filter. It also
        # refuses requests on a draining connection, where the owner of a consumer must still delete it.
        with Inbox(self.connection) as inbox:
            inbox.ask(subject, payload, block)
            return (await inbox.take(timeout))[0].data


def _no_answer(subject: str, seconds: float) -> Timeout:
    return Timeout(
        f"JetStream did not answer on {subject!r} within {seconds:.3g} s: it is unknown whether it received"
        " the request",
        hint="Check the permissions, `domain`, and whether the cluster has a leader",
    )


def _list(answer: dict[str, Any], name: str, kind: type) -> list[Any]:
    """A list in an answer, empty if it is missing. Raises `RemoteProtocolError` for anything else."""
    entries = answer.get(name) or []
    if not isinstance(entries, list) or not all(isinstance(entry, kind) for entry in entries):
        raise _wrong(name, entries)
    return entries


def total_of(answer: dict[str, Any]) -> int:
    """How many entries all pages have. Raises `RemoteProtocolError`."""
    return _count(answer, "total")


def _count(answer: dict[str, Any], name: str) -> int:
    """A number in an answer, 0 if it is missing. Raises `RemoteProtocolError` for anything else."""
    count = answer.get(name) or 0
    if not isinstance(count, int) or not 0 <= count < 2**63:
        raise _wrong(name, count)
    return count


def _wrong(name: str, value: object) -> RemoteProtocolError:
    return RemoteProtocolError(f"{name} of an answer cannot be {reprlib.repr(value)}")
