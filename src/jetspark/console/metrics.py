"""`/metrics` of the console: what the collector knows, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as Registered

from jetspark.console.collector import Collector
from jetspark.console.reports import agent_state, job_state
from jetspark.console.text import line

__all__ = ["CONTENT_TYPE", "exposition"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Characters of a label; no name of a stream or consumer is longer.
_LABEL: Final = 300


def exposition(collector: Collector) -> bytes:
    """The metrics of streams, consumers, agents and jobs."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(collector))
    return generate_latest(registry)


class _Snapshot(Registered):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from _server(self._collector)
        yield from _streams(self._collector)
        yield from _consumers(self._collector)
        yield from _agents(self._collector)
        yield from _jobs(self._collector)


def _gauge(name: str, help: str, labels: tuple[str, ...] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"jetspark_{name}", help, labels=labels)


def _counter(name: str, help: str, labels: tuple[str, ...] = ()) -> CounterMetricFamily:
    return CounterMetricFamily(f"jetspark_{name}", help, labels=labels)


def _server(collector: Collector) -> Iterator[Metric]:
    up = _gauge("server_up", "Whether the console is connected to the server.")
    up.add_metric((), float(collector.js.connection.connected and not collector.errors))
    yield up
    requests = _counter("console_requests", "Requests of the console to the server.")
    requests.add_metric((), collector.requests)
    yield requests


def _streams(collector: Collector) -> Iterator[Metric]:
    labels = ("stream",)
    messages = _gauge("stream_messages", "Messages in the stream.", labels)
    size = _gauge("stream_bytes", "Bytes in the stream.", labels)
    last = _counter("stream_last_sequence", "Sequence of the last stored message.", labels)
    consumers = _gauge("stream_consumers", "Consumers of the stream.", labels)
    for name, stream in collector.streams.items():
        state, values = stream.listed.state, (line(name, _LABEL),)
        messages.add_metric(values, state.messages)
        size.add_metric(values, state.bytes)
        last.add_metric(values, state.last_seq)
        consumers.add_metric(values, state.consumer_count)
    yield from (messages, size, last, consumers)


def _consumers(collector: Collector) -> Iterator[Metric]:
    labels = ("stream", "consumer")
    pending = _gauge("consumer_pending_messages", "Messages that were never delivered.", labels)
    in_flight = _gauge("consumer_ack_pending_messages", "Messages without an acknowledgement yet.", labels)
    redelivered = _gauge(
        "consumer_redelivered_messages", "Messages in flight for more than the first time.", labels
    )
    delivered = _counter("consumer_delivered_messages", "Deliveries.", labels)
    waiting = _gauge("consumer_waiting_pulls", "Pull requests that wait.", labels)
    paused = _gauge("consumer_paused", "Whether the consumer is paused.", labels)
    for consumer in collector.consumers():
        listed = consumer.listed
        values = line(listed.stream_name, _LABEL), line(listed.name, _LABEL)
        pending.add_metric(values, listed.num_pending)
        in_flight.add_metric(values, listed.num_ack_pending)
        redelivered.add_metric(values, listed.num_redelivered)
        delivered.add_metric(values, listed.delivered.consumer_seq)
        waiting.add_metric(values, listed.num_waiting)
        paused.add_metric(values, float(listed.paused))
    yield from (pending, in_flight, redelivered, delivered, waiting, paused)


def _agents(collector: Collector) -> Iterator[Metric]:
    labels = ("agent", "host")
    up = _gauge("agent_up", "Whether the agent reports.", labels)
    paused = _gauge("agent_paused", "Whether the agent is paused.", labels)
    lines = _counter("agent_lines", "Lines that the agent has stored since it started.", labels)
    size = _counter("agent_bytes", "Bytes that the agent has stored since it started.", labels)
    behind = _gauge("agent_behind_bytes", "Bytes of its files that the agent has not read.", labels)
    for agent in collector.agents.values():
        report, state = agent.report, agent_state(agent.report)
        values = line(report.name, _LABEL), line(report.host, _LABEL)
        up.add_metric(values, float(state not in ("silent", "stopped")))
        paused.add_metric(values, float(state == "paused"))
        lines.add_metric(values, report.lines)
        size.add_metric(values, report.bytes)
        behind.add_metric(values, report.behind)
    yield from (up, paused, lines, size, behind)


def _jobs(collector: Collector) -> Iterator[Metric]:
    labels = ("job", "host")
    up = _gauge("job_up", "Whether the job runs and reports.", labels)
    rows = _counter("job_rows", "Rows that the job has written since it started.", labels)
    bad = _counter("job_bad_lines", "Lines that did not parse since the job started.", labels)
    lag = _gauge("job_lag_messages", "Messages that wait for the job.", labels)
    for job in collector.jobs.values():
        values = line(job.name, _LABEL), line(job.host, _LABEL)
        up.add_metric(values, float(job_state(job) in ("starting", "running")))
        rows.add_metric(values, job.rows)
        bad.add_metric(values, job.bad_lines)
        lag.add_metric(values, job.lag)
    yield from (up, rows, bad, lag)
