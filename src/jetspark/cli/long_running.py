"""What commands that run until they are stopped share: their end, `--log-format`, metrics over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias, TypeVar

import typer

from jetspark.cli.args.parameters import choice_option, option
from jetspark.cli.ui import log
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.cli.ui.output import Output

if TYPE_CHECKING:
    from jetspark.metrics import MetricSample

__all__ = ["LogFormat", "LoopSource", "MetricsAddress", "MetricsPort", "arrivals", "serve_metrics"]

_Item_co = TypeVar("_Item_co", covariant=True)

#: Seconds a scrape waits for the event loop.
_SCRAPE_WAIT: Final = 5.0


def _use_format(ctx: typer.Context, value: str | None) -> str | None:
    if value == "json":
        log.use_json(ctx.command_path.replace(" ", "."))
    return value


#: Takes effect while the options are parsed: `main` has chosen the format before.
LogFormat: TypeAlias = Annotated[
    str | None,
    choice_option(
        "--log-format",
        choices=("text", "json"),
        help="Messages on stderr: text, or one JSON object a line.",
        is_eager=True,
        callback=_use_format,
    ),
]
MetricsPort: TypeAlias = Annotated[
    int | None,
    option(
        "--metrics-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Serve metrics for Prometheus on this port; 0 chooses one.",
    ),
]
MetricsAddress: TypeAlias = Annotated[
    str | None,
    option("--metrics-address", metavar="ADDRESS", help="Serve them on this address (127.0.0.1)."),
]


class LoopSource:
    """The metrics of something that belongs to the event loop, which must be running. See `register`."""

    def __init__(self, samples: Callable[[], Iterable[MetricSample]]) -> None:
        self._samples = samples
        self._loop = asyncio.get_running_loop()

    def samples(self) -> Iterable[MetricSample]:
        """The samples, as the loop sees them; none if it does not answer."""
        answer: Future[list[MetricSample]] = Future()

        def look() -> None:
            try:
                answer.set_result(list(self._samples()))
            except Exception as error:  # The scrape fails, not the command.
                answer.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(look)
            return answer.result(_SCRAPE_WAIT)
        except (RuntimeError, TimeoutError):  # The loop has ended, or is busy.
            return []


@contextmanager
def serve_metrics(out: Output, port: int | None, address: str | None, *sources: Any) -> Iterator[None]:
    """Serve the metrics of connections and other sources while the context lasts, if there is a port."""
    if port is None:
        if address is not None:
            raise Failure("--metrics-address needs --metrics-port", code=Exit.USAGE)
        yield
        return
    from jetspark import metrics  # noqa: PLC0415 - needs an extra

    with metrics.serve(port, address or "127.0.0.1") as server:
        for source in sources:
            metrics.register(source)
        host = f"[{address}]" if address and ":" in address else address or "127.0.0.1"
        out.inform("serving metrics", url=f"http://{host}:{server.port}/metrics")
        try:
            yield
        finally:
            for source in sources:
                metrics.unregister(source)


class _Source(Protocol[_Item_co]):
    async def next(self, timeout: float | None = None) -> _Item_co | None: ...


async def arrivals(
    source: _Source[_Item_co], number: int | None, wait: float | None
) -> AsyncIterator[_Item_co]:
    """The next items: `number` of them (`--count`), or until none arrives for `wait` seconds (`--wait`)."""
    seen = 0
    while seen != number and (item := await source.next(wait)) is not None:
        seen += 1
        yield item
