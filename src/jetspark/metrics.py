"""Metrics for Prometheus: the table of their names, a collector, and an HTTP server.

```python
nc = await jetspark.connect(...)        # or jetspark.blocking.connect(...)
jetspark.metrics.register(nc)           # the program serves the default registry itself, or:
jetspark.metrics.serve(9464)
```

No message is counted for metrics: the collector reads, at each scrape, the counts that connections keep.
Names are those of `METRICS` alone; `docs/metrics.md` has the same table for readers. prometheus-client is
loaded when it is used.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from jetspark.blocking.connection import Connection as BlockingConnection
from jetspark.client import Connection
from jetspark.errors import MissingExtra, UsageError
from jetspark.jetstream.publish.in_flight import InFlight
from jetspark.jetstream.pull.buffer import PullBuffer
from jetspark.jetstream.push.reader import PushReader
from jetspark.reports.jobs import JobReport

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = [
    "METRICS",
    "MetricSample",
    "MetricsCollector",
    "MetricsServer",
    "SampleSource",
    "job_samples",
    "register",
    "serve",
    "unregister",
]


class _Metric(NamedTuple):
    """A row of the table."""

    name: str
    #: `counter` or `gauge`.
    kind: str
    labels: tuple[str, ...]
    help: str


_CONNECTION: Final = ("connection",)
_STREAM: Final = ("stream",)
_CONSUMER: Final = ("stream", "consumer")
_CLIENT: Final = ("connection", "stream", "consumer")
_AGENT: Final = ("agent", "host")
#: Not `job`: Prometheus gives every metric a label of that name.
_JOB: Final = ("job_name", "host")

#: Every metric, by name.
METRICS: Final = {
    row[0]: _Metric(*row)
    for row in (
        # A connection of this process
        ("jetspark_connection_up", "gauge", _CONNECTION, "1 while it is connected"),
        ("jetspark_connection_received_messages_total", "counter", _CONNECTION, "Messages received"),
        ("jetspark_connection_received_bytes_total", "counter", _CONNECTION, "Bytes received"),
        ("jetspark_connection_sent_messages_total", "counter", _CONNECTION, "Messages published"),
        ("jetspark_connection_sent_bytes_total", "counter", _CONNECTION, "Bytes sent"),
        ("jetspark_connection_unsent_bytes", "gauge", _CONNECTION, "Bytes that wait to be written"),
        ("jetspark_connection_reconnects_total", "counter", _CONNECTION, "Reconnects"),
        ("jetspark_connection_errors_total", "counter", _CONNECTION, "Errors that no call raised"),
        (
            "jetspark_connection_dropped_messages_total",
            "counter",
            _CONNECTION,
            "Messages that slow subscriptions dropped",
        ),
        # Its publishers and js.publish
        ("jetspark_publisher_messages_total", "counter", _CONNECTION, "Messages published to streams"),
        ("jetspark_publisher_acks_total", "counter", _CONNECTION, "Messages that a stream has acknowledged"),
        ("jetspark_publisher_failures_total", "counter", _CONNECTION, "Messages that failed"),
        ("jetspark_publisher_pending_messages", "gauge", _CONNECTION, "Messages without an answer yet"),
        # Its consumers
        ("jetspark_consumer_deliveries_total", "counter", _CLIENT, "Messages delivered to this process"),
        ("jetspark_consumer_redeliveries_total", "counter", _CLIENT, "Messages delivered before"),
        ("jetspark_consumer_buffered_messages", "gauge", _CLIENT, "Messages that wait for the program"),
        ("jetspark_consumer_acks_total", "counter", _CONNECTION, "Messages acknowledged by this process"),
        # The server, streams and consumers, as the console sees them
        ("jetspark_server_up", "gauge", (), "1 while the console is connected to the server"),
        ("jetspark_console_requests_total", "counter", (), "Requests of the console to the server"),
        ("jetspark_stream_messages", "gauge", _STREAM, "Messages in the stream"),
        ("jetspark_stream_bytes", "gauge", _STREAM, "Bytes of the stream"),
        ("jetspark_stream_last_sequence_total", "counter", _STREAM, "Sequence of the last stored message"),
        ("jetspark_stream_consumers", "gauge", _STREAM, "Consumers of the stream"),
        ("jetspark_consumer_pending_messages", "gauge", _CONSUMER, "Messages not delivered yet"),
        ("jetspark_consumer_ack_pending_messages", "gauge", _CONSUMER, "Messages not acknowledged yet"),
        ("jetspark_consumer_redelivered_messages", "gauge", _CONSUMER, "Messages delivered more than once"),
        ("jetspark_consumer_delivered_messages_total", "counter", _CONSUMER, "Deliveries"),
        ("jetspark_consumer_waiting_pulls", "gauge", _CONSUMER, "Pull requests that wait"),
        ("jetspark_consumer_paused", "gauge", _CONSUMER, "1 while it is paused"),
        # Agents
        ("jetspark_agent_up", "gauge", _AGENT, "1 while it ships or is paused"),
        ("jetspark_agent_paused", "gauge", _AGENT, "1 while it is paused"),
        ("jetspark_agent_lines_total", "counter", _AGENT, "Lines stored"),
        ("jetspark_agent_bytes_total", "counter", _AGENT, "Bytes of the lines stored"),
        ("jetspark_agent_behind_bytes", "gauge", _AGENT, "Bytes of files that are not read yet"),
        ("jetspark_agent_duplicate_lines_total", "counter", _AGENT, "Lines that the stream already had"),
        ("jetspark_agent_in_flight_messages", "gauge", _AGENT, "Messages not acknowledged yet"),
        ("jetspark_agent_files", "gauge", _AGENT, "Files that it follows"),
        # consume-logs
        ("jetspark_log_writer_up", "gauge", _CONSUMER, "1 while it writes, 0 while the disk is full"),
        ("jetspark_log_writer_lines_total", "counter", _CONSUMER, "Lines written"),
        ("jetspark_log_writer_bytes_total", "counter", _CONSUMER, "Bytes of the lines written"),
        ("jetspark_log_writer_hosts", "gauge", _CONSUMER, "Hosts whose lines it has written"),
        ("jetspark_log_writer_redeliveries_total", "counter", _CONSUMER, "Messages delivered before"),
        ("jetspark_log_writer_naks_total", "counter", _CONSUMER, "Messages sent back: the disk was full"),
        ("jetspark_log_writer_terms_total", "counter", _CONSUMER, "Messages given up as invalid"),
        # Jobs and queries
        ("jetspark_job_up", "gauge", _JOB, "1 while it starts or runs"),
        ("jetspark_job_rows_total", "counter", _JOB, "Rows written; for a query, read"),
        ("jetspark_job_bad_lines_total", "counter", _JOB, "Lines that do not parse"),
        ("jetspark_job_lag_messages", "gauge", _JOB, "Messages not read yet"),
        ("jetspark_job_rows_per_second", "gauge", _JOB, "Rows a second over the last batches"),
        ("jetspark_job_batch_seconds", "gauge", _JOB, "Duration of the last batch"),
        ("jetspark_job_batch_id", "gauge", _JOB, "Number of the last batch"),
    )
}


class MetricSample(NamedTuple):
    """A value of a metric, and the values of its labels in the order of the table."""

    name: str
    labels: tuple[str, ...]
    value: float


class SampleSource(Protocol):
    """A source of metrics, such as `jetspark.spark.ProgressListener`. Any thread may call it."""

    def samples(self) -> Iterable[MetricSample]:
        """The current values."""
        ...


_Samples: TypeAlias = Callable[[], Iterable[MetricSample]]


class MetricsCollector:
    """Collects from all registered sources; the collector of prometheus-client."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By the registered object.
        self._sources: weakref.WeakKeyDictionary[object, _Samples] = weakref.WeakKeyDictionary()

    def add(self, source: object, samples: _Samples) -> None:
        with self._lock:
            self._sources[source] = samples

    def remove(self, source: object) -> None:
        with self._lock:
            self._sources.pop(source, None)

    def names(self) -> set[str]:
        """The names of the registered connections."""
        with self._lock:
            return {each.name for each in self._sources.values() if isinstance(each, _ConnectionSource)}

    def collect(self) -> Iterator[Any]:
        """The families of all samples; of two with equal labels, the last one counts."""
        core = _prometheus().core
        with self._lock:
            sources = list(self._sources.values())
        values: dict[str, dict[tuple[str, ...], float]] = {}
        for samples in sources:
            for name, labels, value in samples():
                values.setdefault(name, {})[labels] = value
        for name, metric in METRICS.items():
            if name not in values:
                continue
            kind = core.CounterMetricFamily if metric.kind == "counter" else core.GaugeMetricFamily
            family = kind(name, metric.help, labels=metric.labels)
            for labels, value in values[name].items():
                family.add_metric([_printable(label) for label in labels], value)
            yield family


class MetricsServer:
    """Serves `/metrics` from a thread until `close`. Made by `serve`."""

    def __init__(self, server: Any, thread: threading.Thread) -> None:
        self._server = server
        self._thread = thread
        #: The port, also if the system has chosen it.
        self.port: int = server.server_port

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


#: The collector of each registry.
_collectors: weakref.WeakKeyDictionary[CollectorRegistry, MetricsCollector] = weakref.WeakKeyDictionary()
_lock: Final = threading.Lock()


def register(
    source: Connection | BlockingConnection | SampleSource,
    *,
    name: str | None = None,
    registry: CollectorRegistry | None = None,
) -> None:
    """Let a registry, by default that of prometheus-client, collect the metrics of a connection.

    `name` is the label `connection`, by default the name of the connection; equal ones get a number. The
    metrics exist until the connection is garbage-collected, or until `unregister`. Raises `MissingExtra`
    without prometheus-client.
    """
    collector = _collector(registry)
    if not isinstance(source, Connection | BlockingConnection):
        collector.add(source, source.samples)
        return
    inner = source._inner if isinstance(source, BlockingConnection) else source
    label = wanted = name or inner.options.name or "jetspark"
    taken, number = collector.names(), 1
    while label in taken:
        number += 1
        label = f"{wanted}-{number}"
    collector.add(source, _ConnectionSource(source, label))


def unregister(
    source: Connection | BlockingConnection | SampleSource, *, registry: CollectorRegistry | None = None
) -> None:
    """Stop collecting from it."""
    _collector(registry).remove(source)


def serve(
    port: int, address: str = "127.0.0.1", *, registry: CollectorRegistry | None = None
) -> MetricsServer:
    """Serve the metrics of a registry over HTTP, from a thread; port 0 chooses a free one.

    There is neither encryption nor authentication: give another address only in a network that you trust.
    Raises `UsageError` if the port is in use, and `MissingExtra` without prometheus-client.
    """
    prometheus = _prometheus()
    if not 0 <= port <= 65535:
        raise UsageError(f"the port of metrics must be from 0 to 65535, not {port}")
    try:
        return MetricsServer(
            *prometheus.start_http_server(port, address, registry=registry or prometheus.REGISTRY)
        )
    except OSError as error:
        reason = error.strerror or error
    raise UsageError(
        f"cannot serve metrics on {address}:{port}: {reason}", hint="Choose another port or address"
    )


def job_samples(report: JobReport, *, up: bool | None = None) -> Iterator[MetricSample]:
    """The samples of a job. `up`: whether it reports; by default according to its own state."""
    labels = (report.name, report.host)
    running = report.state in ("starting", "running")
    yield MetricSample("jetspark_job_up", labels, running if up is None else running and up)
    yield MetricSample("jetspark_job_rows_total", labels, report.rows)
    yield MetricSample("jetspark_job_bad_lines_total", labels, report.bad_lines)
    yield MetricSample("jetspark_job_lag_messages", labels, report.lag)
    yield MetricSample("jetspark_job_rows_per_second", labels, report.rate)
    if report.batches:
        yield MetricSample("jetspark_job_batch_seconds", labels, report.batches[-1].seconds)
        yield MetricSample("jetspark_job_batch_id", labels, report.batches[-1].id)


class _ConnectionSource:
    """Reads the counts of a connection, which it does not keep alive."""

    def __init__(self, connection: Connection | BlockingConnection, name: str) -> None:
        self.name = name
        self._connection = weakref.ref(connection)
        self._acks = 0

    def __call__(self) -> Iterator[MetricSample]:
        connection = self._connection()
        if connection is None:
            return
        labels = (self.name,)
        inner = connection._inner if isinstance(connection, BlockingConnection) else connection
        statistics, session = connection.statistics, inner.session
        tally, receivers = session.tally, session.receivers
        yield MetricSample("jetspark_connection_up", labels, connection.connected)
        yield MetricSample("jetspark_connection_received_messages_total", labels, statistics.in_msgs)
        yield MetricSample("jetspark_connection_received_bytes_total", labels, statistics.in_bytes)
        yield MetricSample("jetspark_connection_sent_messages_total", labels, statistics.out_msgs)
        yield MetricSample("jetspark_connection_sent_bytes_total", labels, statistics.out_bytes)
        yield MetricSample("jetspark_connection_unsent_bytes", labels, session.outbox.size)
        yield MetricSample("jetspark_connection_reconnects_total", labels, statistics.reconnects)
        yield MetricSample("jetspark_connection_errors_total", labels, tally.errors)
        yield MetricSample("jetspark_connection_dropped_messages_total", labels, tally.dropped)
        publishers = [each for each in receivers if isinstance(each, InFlight)]
        published = tally.published + sum(each.published for each in publishers)
        acked = tally.publish_acks + sum(each.acked for each in publishers)
        failed = tally.publish_failures + sum(each.failed for each in publishers)
        yield MetricSample("jetspark_publisher_messages_total", labels, published)
        yield MetricSample("jetspark_publisher_acks_total", labels, acked)
        yield MetricSample("jetspark_publisher_failures_total", labels, failed)
        yield MetricSample("jetspark_publisher_pending_messages", labels, max(published - acked - failed, 0))
        buffered: dict[bytes, int] = {}
        for each in receivers:
            if isinstance(each, PullBuffer):
                buffered[each.names] = buffered.get(each.names, 0) + len(each.frames)
            elif isinstance(each, PushReader):
                buffered[each.names] = buffered.get(each.names, 0) + each.pending_msgs
        for names, counts in tally.consumers.copy().items():
            stream, _, consumer = names.decode("utf-8", "replace").partition(".")
            of_consumer = (self.name, stream, consumer)
            yield MetricSample("jetspark_consumer_deliveries_total", of_consumer, counts.delivered)
            yield MetricSample("jetspark_consumer_redeliveries_total", of_consumer, counts.redelivered)
            yield MetricSample("jetspark_consumer_buffered_messages", of_consumer, buffered.get(names, 0))
        yield MetricSample("jetspark_consumer_acks_total", labels, self._acknowledged(connection, inner))

    def _acknowledged(self, connection: Connection | BlockingConnection, inner: Connection) -> int:
        acks = inner.session.tally.acks + inner.session.outbox.queue.acked
        if isinstance(connection, BlockingConnection):
            writer = connection._bridge.writer
            acks += writer.moved - writer.published - writer.others
        # The counts of a writer are not of one moment; a counter does not fall.
        self._acks = max(self._acks, acks)
        return self._acks


def _collector(registry: CollectorRegistry | None) -> MetricsCollector:
    registry = _prometheus().REGISTRY if registry is None else registry
    assert registry is not None
    with _lock:
        collector = _collectors.get(registry)
        if collector is None:
            collector = _collectors[registry] = MetricsCollector()
            registry.register(collector)
        return collector


def _prometheus() -> Any:
    try:
        import prometheus_client  # noqa: PLC0415 - an extra
        import prometheus_client.core  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        hint = "Install it with `pip install 'jetspark[metrics]'`"
        raise MissingExtra("metrics need prometheus-client", hint=hint) from error
    return prometheus_client


def _printable(label: str) -> str:
    """A label that another client may have published: as UTF-8, and not too long."""
    return label.encode("utf-8", "replace").decode()[:200]
