"""Arguments and options that name a stream or a consumer. The shell completes them from the server.

Completion runs while the user waits after TAB, so it gives up after a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from jetspark.cli.args.parameters import option
from jetspark.cli.settings import COMMON, Settings

if TYPE_CHECKING:
    from jetspark import JetStream

__all__ = ["ConsumerName", "StreamName", "consumer_option", "stream_names", "stream_option"]

_TIMEOUT: Final = 1.0


def stream_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Streams whose name starts with `incomplete`."""

    async def list_names(js: JetStream) -> list[str]:
        return [name async for name in js.stream_names()]

    return [name for name in _query(ctx, list_names) if name.startswith(incomplete)]


def _consumer_names(ctx: typer.Context, incomplete: str) -> list[str]:
    stream = ctx.params.get("stream")

    async def list_names(js: JetStream) -> list[str]:
        return [name async for name in js.consumer_names(str(stream))]

    return [name for name in _query(ctx, list_names) if name.startswith(incomplete)] if stream else []


def _query(ctx: typer.Context, query: Callable[[JetStream], Coroutine[Any, Any, list[str]]]) -> list[str]:
    async def run() -> list[str]:
        from jetspark import connect  # noqa: PLC0415 - loaded when it is used

        settings = Settings(**{name: ctx.params[name] for name in COMMON if name in ctx.params})
        options = settings.connect_options(None)
        async with asyncio.timeout(_TIMEOUT), connect(options.pop("servers"), **options) as nc:
            return await query(nc.jetstream(**settings.jetstream_options()))

    try:
        return asyncio.run(run())
    except Exception:
        return []  # An error text would land in the middle of the command line that is being typed.


StreamName: TypeAlias = Annotated[
    str, typer.Argument(metavar="STREAM", help="Name of the stream.", autocompletion=stream_names)
]
ConsumerName: TypeAlias = Annotated[
    str, typer.Argument(metavar="CONSUMER", help="Name of the consumer.", autocompletion=_consumer_names)
]


def stream_option(help: str) -> Any:
    """The option `--stream`."""
    return option("--stream", metavar="STREAM", autocompletion=stream_names, help=help)


def consumer_option(help: str) -> Any:
    """The option `--consumer`, of the stream that was given before it."""
    return option("--consumer", metavar="CONSUMER", autocompletion=_consumer_names, help=help)
