"""Problems for an operator: those that `jetspark doctor` finds, and those that the figures show."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote

from jetspark.console.collector import Collector, WatchedConsumer, WatchedStream
from jetspark.console.text import show_bytes, show_count
from jetspark.core.server_info import Feature
from jetspark.logs.control.switch import agent_state, obeys
from jetspark.reports.jobs import job_state
from jetspark.wire.subjects import subject_matches

__all__ = ["Problem", "problems"]

#: The share of a limit at which it counts as nearly full.
_FULL: Final = 0.9
#: The subject of the audit of the API: with each request, its whole answer.
_AUDIT: Final = "$JS.EVENT.ADVISORY.API"
#: Problems that are listed at most.
_MOST: Final = 100


class Problem(NamedTuple):
    """Something to look at."""

    #: `error` or `warning`.
    severity: str
    what: str
    advice: str
    #: The page about it.
    link: str = ""


def problems(collector: Collector) -> list[Problem]:
    """The problems, the worst first."""
    found = []
    for problem in _all(collector):
        found.append(problem)
        if len(found) >= _MOST:
            break
    return sorted(found, key=lambda problem: problem.severity)


def _all(collector: Collector) -> Iterator[Problem]:
    yield from _of_server(collector)
    for name in collector.missing:
        yield Problem("error", f"Stream {name} does not answer: it has no leader", "Start its servers")
    yield from _of_logs(collector)
    for stream in collector.streams.values():
        yield from _of_stream(stream)
        for consumer in stream.consumers.values():
            yield from _of_consumer(consumer)


def _of_server(collector: Collector) -> Iterator[Problem]:
    nc = collector.js.connection
    if not nc.connected:
        reason = f": {nc.last_error}" if nc.last_error else ""
        yield Problem("error", f"The server cannot be reached{reason}", "The console reconnects by itself")
    for part, error in collector.errors.items():
        yield Problem(
            "error", f"Cannot read {part}: {error}", "Check the permissions of the user: `jetspark doctor`"
        )
    account = collector.account
    if account is None:
        return
    if account.api.level < Feature.BATCH_DIRECT_GET.level:
        version = nc.server_info.version
        yield Problem(
            "warning",
            f"nats-server {version} is old",
            f"Some features need {Feature.BATCH_DIRECT_GET.since} or later",
        )
    for usage in account.usages():
        if usage.share >= _FULL:
            show = show_bytes if usage.resource in ("storage", "memory") else show_count
            what = f"{usage.resource} {usage.tier}".strip()
            yield Problem(
                "warning",
                f"The account is nearly full: {what} {show(usage.used)} of {show(usage.limit)}",
                "Delete streams or messages, or raise the limits of the account",
            )


def _of_logs(collector: Collector) -> Iterator[Problem]:
    switch = collector.switch
    if switch.holds(datetime.now(UTC)):
        yield Problem("warning", f"Shippers are paused by {switch.by}", "Resume them", "/logs")
    for agent in collector.agents.values():
        state = agent_state(agent.report)
        if state == "silent":
            yield Problem(
                "error", f"Agent {agent.report.name} is silent", f"Look at {agent.report.host}", "/logs"
            )
        elif not obeys(agent.report, switch):
            yield Problem(
                "warning",
                f"Agent {agent.report.name} does not follow the pause switch yet",
                "It may be offline",
                "/logs",
            )
    for job in collector.jobs.values():
        state = job_state(job)
        if state in ("failed", "silent"):
            yield Problem(
                "error", f"Job {job.name} is {state}", job.error or f"Look at its log on {job.host}", "/logs"
            )


def _of_stream(stream: WatchedStream) -> Iterator[Problem]:
    listed = stream.listed
    name, config, state, cluster = listed.name, listed.config, listed.state, listed.cluster
    link = f"/stream/{quote(name, safe='')}"
    if any(subject_matches(pattern, _AUDIT) for pattern in config.subjects or ()):
        yield Problem(
            "warning",
            f"Stream {name} stores every request of the JetStream API with its answer, also those of this "
            "console",
            "Let it capture $JS.EVENT.ADVISORY.CONSUMER.> only, which has all that dead letters need",
            link,
        )
    if cluster is not None and config.num_replicas > 1:
        if not cluster.leader:
            yield Problem("error", f"Stream {name} has no leader", "Start its servers", link)
        for peer in cluster.replicas:
            if peer.offline or not peer.current:
                behind = f"{show_count(peer.lag)} operations behind" if peer.lag else "out of touch"
                state_of_peer = "offline" if peer.offline else behind
                yield Problem(
                    "warning",
                    f"A replica of stream {name} is not current: {peer.name} is {state_of_peer}",
                    "Check the server",
                    link,
                )
    if config.discard == "new":
        for what, used, most, show in (
            ("messages", state.messages, config.max_msgs, show_count),
            ("bytes", state.bytes, config.max_bytes, show_bytes),
        ):
            if most > 0 and used >= _FULL * most:
                yield Problem(
                    "warning",
                    f"Stream {name} will soon refuse messages: {show(used)} of {show(most)} {what}",
                    "Raise its limit, or delete messages",
                    link,
                )


def _of_consumer(consumer: WatchedConsumer) -> Iterator[Problem]:
    listed = consumer.listed
    name = f"{listed.stream_name} > {listed.name}"
    link = f"/consumer/{quote(listed.stream_name, safe='')}/{quote(listed.name, safe='')}"
    most = listed.config.max_ack_pending
    if most > 0 and listed.num_ack_pending >= most and listed.num_pending:
        yield Problem(
            "warning",
            f"Consumer {name} waits for acknowledgements: {show_count(most)} messages are in flight",
            "Its workers are too slow, or do not acknowledge; raise max_ack_pending if they can take more",
            link,
        )
    idle = not (listed.push_bound if listed.config.deliver_subject else listed.num_waiting)
    if idle and listed.num_pending and not listed.num_ack_pending and not listed.paused:
        last = listed.last_active
        if last is None or (datetime.now(UTC) - last).total_seconds() > 60:
            yield Problem(
                "warning",
                f"Consumer {name} has {show_count(listed.num_pending)} messages that no client reads",
                "Start its program, or delete the consumer",
                link,
            )
