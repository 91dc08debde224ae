"""Runs one plan: sets up, breaks, heals, waits, and asks the judge."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from chaos.faults import FAULTS, Lane
from chaos.judge import judge
from chaos.leaks import LEAVE, Surroundings, left_consumers
from chaos.plan import Plan, Step
from chaos.record import Record
from chaos.site import STREAM, Site
from chaos.stage import Stage
from chaos.workloads import WORKLOADS
from jetspark import Error

__all__ = ["SETTLE", "Outcome", "run"]

#: Seconds that writers, and then readers, may take after the last fault. Two failed elections in a row
#: take half of it.
SETTLE = 60.0
_SET_UP = 60.0
#: Consumers that stay: those of readers that do not own them.
_DURABLE = {
    "fetch",
    "next",
    "messages",
    "consume",
    "queue",
    "dead_letters",
    "fetch_blocking",
    "messages_blocking",
    "consume_blocking",
}


@dataclass
class Outcome:
    """What a cell was and what came of it."""

    plan: Plan
    findings: list[str] = field(default_factory=list)
    #: What may be, and is worth a look.
    notes: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    stored: int = 0
    deliveries: int = 0
    #: Seconds that a message waited at most, by reader.
    longest: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


async def run(plan: Plan, *, settle: float = SETTLE, leave: float = LEAVE) -> Outcome:
    """Run a cell. Raises nothing for what the workloads do: `findings` has it.

    Workloads may take `settle` seconds after the last fault; what they used is gone `leave` seconds later.
    """
    outcome = Outcome(plan)
    record = Record(plan.seed)
    start = time.monotonic()
    loop = asyncio.get_running_loop()
    unhandled = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: record.findings.append(_unhandled(context)))
    try:
        surroundings = Surroundings()
        async with Site(plan.place) as site:
            await _Cell(plan, site, record, settle, leave).run(outcome)
        record.findings += await surroundings.left(leave)
    finally:
        loop.set_exception_handler(unhandled)
    outcome.findings = [*record.findings, *judge(record, forgetful=plan.forgetful, gentle=plan.gentle)]
    outcome.errors = record.errors
    outcome.stored = len(record.stored or ())
    outcome.deliveries = record.deliveries
    outcome.longest = {reading.name: reading.longest for reading in record.readings}
    outcome.seconds = time.monotonic() - start
    return outcome


class _Cell:
    def __init__(self, plan: Plan, site: Site, record: Record, settle: float, leave: float) -> None:
        self._plan = plan
        self._site = site
        self._record = record
        self._settle = settle
        self._leave = leave
        self._lanes = {lane: asyncio.Lock() for lane in Lane}
        self._stages = {
            name: Stage(site, record, name, seed=plan.seed, pace=plan.pace) for name in plan.workloads
        }
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self, outcome: Outcome) -> None:
        for name, stage in self._stages.items():
            self._tasks[name] = asyncio.create_task(WORKLOADS[name].run(stage), name=name)
        try:
            await self._ready()
            await asyncio.gather(*(self._break(number, outcome) for number in range(len(self._plan.steps))))
            await self._site.heal()
            for stage in self._stages.values():
                stage.calm = True
            await self._finish(writers=True)
            self._record.stored = await self._read()
            await self._finish(writers=False)
            left = await left_consumers(self._site, _DURABLE, self._leave)
            if self._plan.undecided:
                outcome.notes += left
            else:
                self._record.findings += left
        finally:
            self._record.over = True
            for task in self._tasks.values():
                task.cancel()
            await asyncio.wait(self._tasks.values())

    async def _ready(self) -> None:
        """Wait until all workloads are set up; one that failed counts as well."""
        deadline = time.monotonic() + _SET_UP
        while waiting := [
            name for name, stage in self._stages.items() if not (stage.is_ready or self._tasks[name].done())
        ]:
            if time.monotonic() > deadline:
                self._record.findings.append(f"hang: {', '.join(waiting)} could not be set up")
                return
            await asyncio.sleep(0.01)

    async def _break(self, number: int, outcome: Outcome) -> None:
        step: Step = self._plan.steps[number]
        await asyncio.sleep(step.at)
        fault = FAULTS[step.fault]
        async with self._lanes[fault.lane]:
            await fault.run(self._site, step.seconds, Random(f"{self._plan.seed} {number}"))
        outcome.faults[step.fault] += 1

    async def _finish(self, *, writers: bool) -> None:
        tasks = {name: task for name, task in self._tasks.items() if WORKLOADS[name].writes is writers}
        if not tasks:
            return
        await asyncio.wait(tasks.values(), timeout=self._settle)
        for name, task in tasks.items():
            if not task.done():
                text = f"hang: {name} did not end within {self._settle:g} s after the last fault"
                self._record.findings.append(f"{text}; it waits at {_where(task)}")
                task.cancel()
        await asyncio.wait(tasks.values())
        for name, task in tasks.items():
            if not task.cancelled() and (error := task.exception()) is not None:
                where = "".join(traceback.format_exception(error)[-3:])
                self._record.findings.append(f"{name} failed with {type(error).__name__}: {error}\n{where}")

    async def _read(self) -> dict[int, bytes] | None:
        """The whole stream, as its leader counts it."""
        deadline = time.monotonic() + SETTLE
        while time.monotonic() < deadline:
            with suppress(Error):
                stream = await self._site.js.get_stream(STREAM)
                state = stream.cached_info.state
                found = {message.sequence: message.data async for message in stream.get_messages()}
                # Another replica may have answered, one that is behind.
                if len(found) == state.messages and max(found, default=0) == state.last_seq * bool(found):
                    return found
            await asyncio.sleep(0.1)
        return None


def _where(task: asyncio.Task[None]) -> str:
    """The innermost line of a task that can be seen."""
    where = "nothing"
    waiting: Any = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        waiting = waiting.cr_await
    return where


def _unhandled(context: dict[str, Any]) -> str:
    error = context.get("exception")
    lines = traceback.format_exception(error)[-3:] if error is not None else []
    return f"unhandled in the event loop: {context['message']}\n{''.join(lines)}"
