"""`--otel`: the spans of a long-running command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jetspark.cli.ui.failure import require

if TYPE_CHECKING:
    from jetspark.core.connection import Connection
    from jetspark.otel.spans import Tracing

__all__ = ["traced"]


@contextmanager
def traced(connection: Connection, service: str, *, on: bool) -> Iterator[Tracing | None]:
    """Makes the spans of a command; None if it has no `--otel`. Raises `Failure`, `UsageError`.

    At the end, spans are exported; `service` is the name of the command in them.
    """
    if not on:
        yield None
        return
    require("opentelemetry", "--otel", "otel")
    from jetspark.otel.environment import configured  # noqa: PLC0415 - an extra
    from jetspark.otel.spans import Tracing  # noqa: PLC0415

    with configured(service) as provider:
        yield Tracing(connection, provider)
