"""The SDK of OpenTelemetry, as the variables OTEL_* configure it. For commands; programs set up their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import TracerProvider

from jetspark.errors import UsageError

__all__ = ["configured"]

#: The exporters of traces that packages have registered, by their names in OTEL_TRACES_EXPORTER.
_EXPORTERS: Final = "opentelemetry_traces_exporter"


@contextmanager
def configured(service: str) -> Iterator[TracerProvider]:
    """The tracer provider: that of the program, or a new one. At the end its spans are exported.

    A new one has the exporters of OTEL_TRACES_EXPORTER (`otlp`), and calls this `service` unless
    OTEL_SERVICE_NAME is set. Raises `UsageError` if a package is missing.
    """
    current = trace.get_tracer_provider()
    if not isinstance(current, trace.ProxyTracerProvider):  # `opentelemetry-instrument` made one.
        yield current
        return
    try:
        from opentelemetry.sdk import trace as sdk  # noqa: PLC0415 - programs choose their SDK
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        raise UsageError(
            "tracing needs the SDK of OpenTelemetry", hint="pip install opentelemetry-sdk"
        ) from None
    os.environ.setdefault("OTEL_SERVICE_NAME", service)
    provider = sdk.TracerProvider()
    try:
        for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
            if (name := name.strip()) in ("", "none"):
                continue
            found = list(entry_points(group=_EXPORTERS, name=name))
            if not found:
                raise UsageError(
                    f"no exporter of traces is called {name!r}",
                    hint="pip install opentelemetry-exporter-otlp, or set OTEL_TRACES_EXPORTER",
                )
            provider.add_span_processor(BatchSpanProcessor(found[0].load()()))
        yield provider
    finally:
        provider.shutdown()
