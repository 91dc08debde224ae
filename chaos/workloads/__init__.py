"""What clients do in a cell. `WORKLOADS` lists it; a new workload is a function and a row.

writers    publish one by one, in a window, in bulk, in atomic batches
readers    fetch, next, messages, consume, classic pull, push, queue groups, ordered readers, direct gets
others     requests, dead letters, consumers that vanish, consumers created and deleted all the time
buckets    a key-value bucket that is written and watched
threads    the blocking API
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from chaos.stage import Stage
from chaos.workloads import buckets, others, readers, threads, writers

__all__ = ["WORKLOADS", "Workload"]


@dataclass(frozen=True)
class Workload:
    """`run(stage)` calls `stage.ready()` when it is set up, and returns when it has done its part."""

    run: Callable[[Stage], Coroutine[Any, Any, None]]
    #: Whether it fills the stream: it ends when the faults are over, and the readers know what to expect.
    writes: bool = False


WORKLOADS: dict[str, Workload] = {
    "publish": Workload(writers.publish, writes=True),
    "window": Workload(writers.window, writes=True),
    "bulk": Workload(writers.bulk, writes=True),
    "atomic": Workload(writers.atomic, writes=True),
    "publish_blocking": Workload(threads.publish, writes=True),
    "window_blocking": Workload(threads.window, writes=True),
    "fetch": Workload(readers.fetch),
    "next": Workload(readers.next_),
    "messages": Workload(readers.messages),
    "consume": Workload(readers.consume),
    "classic": Workload(readers.classic),
    "push": Workload(readers.push),
    "queue": Workload(readers.queue),
    "ordered_messages": Workload(readers.ordered_messages),
    "ordered_fetch": Workload(readers.ordered_fetch),
    "ordered_push": Workload(readers.ordered_push),
    "direct": Workload(readers.direct),
    "fetch_blocking": Workload(threads.fetch),
    "messages_blocking": Workload(threads.messages),
    "consume_blocking": Workload(threads.consume),
    "push_blocking": Workload(threads.push),
    "ordered_blocking": Workload(threads.ordered),
    "requests": Workload(others.requests),
    "dead_letters": Workload(others.dead_letters),
    "vanishing": Workload(others.vanishing),
    "vanishing_blocking": Workload(threads.vanishing),
    "churn": Workload(others.churn),
    "bucket": Workload(buckets.bucket),
}
