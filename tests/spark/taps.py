"""A tap in a query: its tasks come by, are noted, and something is done to them while they read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Act", "attempts", "hold_first", "tap", "wait_for"]

#: What is done to a task, given its partition and the number of the attempt, after its first rows.
Act = Callable[[int, int], None]


def tap(frame: Any, notes: Path, act: Act) -> Any:
    """The frame, of any kind of session, with a tap that notes each attempt as a file."""
    notes.mkdir()

    def tapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        partition, attempt = context.partitionId(), context.attemptNumber()
        (notes / f"{partition}-{attempt}").touch()
        for number, batch in enumerate(batches):
            yield batch
            if not number:
                act(partition, attempt)

    return frame.mapInArrow(tapped, frame.schema)


def attempts(notes: Path) -> list[str]:
    """The attempts that came by, as `<partition>-<attempt>`."""
    return sorted(path.name for path in notes.iterdir())


def hold_first(gate: Path) -> Act:
    """First attempts wait there until the file `gate` is; it says that they do by `gate` with `-reached`."""
    reached = gate.with_name(f"{gate.name}-reached")

    def hold(partition: int, attempt: int) -> None:
        if attempt:
            return
        reached.touch()
        wait_for(gate.exists, "the gate to be opened")

    return hold


def _waiting() -> Callable[[Callable[[], bool], str], None]:
    """A closure, because that is sent to the workers by value: they cannot import the tests."""

    def wait(done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 120
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain for {what}")
            time.sleep(0.02)

    return wait


#: Wait in a task until something is done.
wait_for = _waiting()
