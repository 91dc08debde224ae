"""`/metrics` of the console: what the collector knows, in the text format of Prometheus.

The names, labels and meanings are those of `jetspark.metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest

from jetspark.console.collector import Collector
from jetspark.console.text import line
from jetspark.logs.control.switch import agent_state
from jetspark.metrics import MetricSample, MetricsCollector, job_samples
from jetspark.reports.jobs import job_state

__all__ = ["CONTENT_TYPE", "exposition"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Characters of a label; no name of a stream or consumer is longer.
_LABEL: Final = 300


def exposition(collector: Collector) -> bytes:
    """The metrics of streams, consumers, agents and jobs."""
    families = MetricsCollector()
    families.add(collector, lambda: _samples(collector))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(families)
    return generate_latest(registry)


def _samples(collector: Collector) -> Iterator[MetricSample]:
    up = collector.js.connection.connected and not collector.errors
    yield MetricSample("jetspark_server_up", (), up)
    yield MetricSample("jetspark_console_requests_total", (), collector.requests)
    yield from _streams(collector)
    yield from _consumers(collector)
    yield from _agents(collector)
    for job in collector.jobs.values():
        known = msgspec.structs.replace(job, name=line(job.name, _LABEL), host=line(job.host, _LABEL))
        yield from job_samples(known, up=job_state(job) != "silent")


def _streams(collector: Collector) -> Iterator[MetricSample]:
    for name, stream in collector.streams.items():
        state, labels = stream.listed.state, (line(name, _LABEL),)
        yield MetricSample("jetspark_stream_messages", labels, state.messages)
        yield MetricSample("jetspark_stream_bytes", labels, state.bytes)
        yield MetricSample("jetspark_stream_last_sequence_total", labels, state.last_seq)
        yield MetricSample("jetspark_stream_consumers", labels, state.consumer_count)


def _consumers(collector: Collector) -> Iterator[MetricSample]:
    for consumer in collector.consumers():
        listed = consumer.listed
        labels = line(listed.stream_name, _LABEL), line(listed.name, _LABEL)
        yield MetricSample("jetspark_consumer_pending_messages", labels, listed.num_pending)
        yield MetricSample("jetspark_consumer_ack_pending_messages", labels, listed.num_ack_pending)
        yield MetricSample("jetspark_consumer_redelivered_messages", labels, listed.num_redelivered)
        yield MetricSample(
            "jetspark_consumer_delivered_messages_total", labels, listed.delivered.consumer_seq
        )
        yield MetricSample("jetspark_consumer_waiting_pulls", labels, listed.num_waiting)
        yield MetricSample("jetspark_consumer_paused", labels, listed.paused)


def _agents(collector: Collector) -> Iterator[MetricSample]:
    for agent in collector.agents.values():
        report, state = agent.report, agent_state(agent.report)
        labels = line(report.name, _LABEL), line(report.host, _LABEL)
        yield MetricSample("jetspark_agent_up", labels, state not in ("silent", "stopped"))
        yield MetricSample("jetspark_agent_paused", labels, state == "paused")
        yield MetricSample("jetspark_agent_lines_total", labels, report.lines)
        yield MetricSample("jetspark_agent_bytes_total", labels, report.bytes)
        yield MetricSample("jetspark_agent_behind_bytes", labels, report.behind)
