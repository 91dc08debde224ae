"""Names of streams and consumers for the shell. Whoever presses TAB waits for it, so it gives up early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import typer

from jetspark.cli.settings import COMMON, Settings

if TYPE_CHECKING:
    from jetspark import JetStream

__all__ = ["consumer_names", "stream_names"]

_PATIENCE: Final = 1.0


def stream_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Streams whose names begin so."""

    async def ask(js: JetStream) -> list[str]:
        return [name async for name in js.stream_names()]

    return [name for name in _answer(ctx, ask) if name.startswith(incomplete)]


def consumer_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Consumers of the stream that was named before."""
    stream = ctx.params.get("stream")

    async def ask(js: JetStream) -> list[str]:
        return [name async for name in js.consumer_names(str(stream))]

    return [name for name in _answer(ctx, ask) if name.startswith(incomplete)] if stream else []


def _answer(ctx: typer.Context, ask: Callable[[JetStream], Coroutine[Any, Any, list[str]]]) -> list[str]:
    async def run() -> list[str]:
        from jetspark import connect  # noqa: PLC0415 - loaded when it is used

        given = {name: ctx.params[name] for name in COMMON if name in ctx.params}
        settings = Settings(**given)
        options = settings.connect_options(None)
        async with asyncio.timeout(_PATIENCE), connect(options.pop("servers"), **options) as nc:
            return await ask(nc.jetstream(**settings.jetstream_options()))

    try:
        return asyncio.run(run())
    except Exception:
        # There is nothing to say to somebody who only pressed TAB.
        return []
