"""Traces with OpenTelemetry: context in headers, and spans for publish, process and settle. Extra `otel`.

    nc = jetspark.otel.instrument(await jetspark.connect(url))

`instrument` gives the connection, and objects made of it afterwards, subclasses that make spans. Connections
that are not instrumented have the plain classes, so tracing costs them nothing.

The map, in reading order; each file may import those above it:

    context       the trace context of a message: into headers, and out of them
    spans         `Tracing`: the spans of a connection and their attributes
    classes       the classes of an instrumented connection
    blocking      those of a blocking one
    instrument    `instrument` and `process`
    environment   the SDK, as the variables OTEL_* configure it; for commands
"""

from jetspark.errors import MissingExtra as _MissingExtra

try:
    from jetspark.otel.instrument import instrument, process
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "opentelemetry":
        raise
    _hint = "Install it with `pip install 'jetspark[otel]'`"
    raise _MissingExtra("jetspark.otel needs opentelemetry-api", hint=_hint) from error

__all__ = ["instrument", "process"]
