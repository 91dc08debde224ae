"""The processes of the demo: hosts, their agents, the server, the Spark job.

```
hosts --> log files --> agents --> stream --> Spark job --> table
                                                  '--> dead letters
```
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from jetspark import StreamConfig, blocking
from jetspark.errors import Error
from jetspark.logs.demo.hosts import LogSource
from jetspark.logs.demo.processes import Command
from jetspark.server import Server

__all__ = ["DEAD_LETTERS", "Pipeline", "Sample"]

#: The stream of dead letters.
DEAD_LETTERS: Final = "DEAD"
_LOGS: Final = "LOGS"
#: Seconds between two samples.
_LOOK: Final = 0.2

_CONFIG: Final = """\
name = "demo"
checkpoint = "checkpoint"
trigger = "1 second"

[source]
servers = "{url}"
stream = "LOGS"

[parse]
format = "{format}"

[sink]
format = "{table_format}"
path = "table"

[dead_letters]
subject = "dead.lines"

[spark]
master = "local[2]"
log = "spark.log"

[spark.conf] # Start soon: Java compiles less.
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """The progress of all parts at one time."""

    #: Since the start.
    seconds: float = 0.0
    #: Lines that the hosts wrote.
    written: int = 0
    #: Lines that the stream acknowledged to the agents.
    shipped: int = 0
    #: Messages in the stream.
    stored: int = 0
    #: Lines of the stream that the job has processed.
    processed: int = 0
    dead_letters: int = 0

    @property
    def done(self) -> bool:
        """Whether all written lines are stored and processed."""
        return self.stored >= self.written and self.processed >= self.stored

    @property
    def lag(self) -> int:
        """Lines that are stored but not processed."""
        return max(self.stored - self.processed, 0)


class Pipeline:
    """The whole pipeline, with all of its files in one directory. Use it as a context manager."""

    def __init__(
        self,
        place: Path,
        sources: Sequence[LogSource],
        *,
        format: str = "combined",
        table_format: str = "parquet",
    ) -> None:
        self.place = place
        self.sources = sources
        self.table = place / "table"
        self.config = place / "pipeline.toml"
        self.samples: list[Sample] = []
        #: The times at which the job was killed, in seconds since the start.
        self.killed: list[float] = []
        place.mkdir(parents=True, exist_ok=True)
        self.server = Server(store_dir=place / "store")
        self._formats = {"format": format, "table_format": table_format}
        self._began = time.monotonic()
        self._stack = ExitStack()
        self.job: Command | None = None
        self.agents: list[Command] = []
        # Lines that killed agents had shipped.
        self._shipped = 0
        self._agent_count = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._stack = stack
            stack.enter_context(self.server)
            js = stack.enter_context(blocking.connect(self.server.url)).jetstream(timeout=30)
            self._logs = js.create_stream(StreamConfig(name=_LOGS, subjects=["logs.>"]))
            self._letters = js.create_stream(StreamConfig(name=DEAD_LETTERS, subjects=["dead.>"]))
            self.config.write_text(_CONFIG.format(url=self.server.url, **self._formats))
            self._began = time.monotonic()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_console(self, *, timeout: float) -> str:
        """Start the console, and return its URL. Raises `Error` if it does not start."""
        url = self.server.url
        console = Command("console", "--port", "0", "--server", url, log=self.place / "console.log")
        return self._kept(console).wait_for("http", timeout)

    def start(
        self, note: Callable[[str], object], show: Callable[[Sample], object], *, timeout: float
    ) -> None:
        """Start agents, Spark and hosts. Raises `Error` if a step takes more than `timeout` seconds.

        Spark starts slowly, and its first batches are slow. Simulated hosts do not write before it works.
        """
        for source in self.sources:
            self._stack.callback(source.stop)
        self.agents = [self._start_agent(source) for source in self.sources]
        if not all(source.can_wait for source in self.sources):
            note("the agents ship, Spark starts")
            self.job = self._start_job()
        else:
            note("each host writes a line, waiting for the agents to ship it")
            self._write_one(parses=True)
            self._until(lambda sample: sample.stored >= sample.written, show, timeout)
            note("Spark starts, waiting for it to process these lines")
            began = self.elapsed
            self.job = self._start_job()
            self._until(lambda sample: sample.done, show, timeout)
            took = f"Spark processed the first lines after {self.elapsed - began:.1f} s"
            note(f"{took}, waiting for its first dead letters")
            self._write_one(parses=False)
            self._until(lambda sample: sample.done, show, timeout)
            note("Spark is warm, the hosts write")
        for source in self.sources:
            source.start()

    def _write_one(self, *, parses: bool) -> None:
        for source in self.sources:
            source.write_one(parses=parses)

    # --- faults

    def kill_job(self) -> None:
        if self.job is not None:
            self.job.kill()
        self.killed.append(self.elapsed)
        self.job = self._start_job()

    def kill_agent(self, number: int) -> None:
        agent = self.agents[number]
        agent.kill()
        self._shipped += _lines(agent)
        self.agents[number] = self._start_agent(self.sources[number])

    def kill_server(self) -> None:
        self.server.kill()
        self.server.start()

    # --- progress

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def last(self) -> Sample:
        return self.samples[-1] if self.samples else Sample()

    def sample(self) -> Sample:
        """Take a sample. Raises `Error` if the job or an agent has failed."""
        for name, command in (("the Spark job", self.job), *(("an agent", each) for each in self.agents)):
            if command is not None and command.failed:
                raise Error(f"{name} ended: {command.last_message}")
        record = None if self.job is None else self.job.last
        sample = Sample(
            seconds=self.elapsed,
            written=sum(source.written for source in self.sources),
            shipped=self._shipped + sum(map(_lines, self.agents)),
            stored=self._logs.info().state.messages,
            processed=record["reached"] if record else 0,
            dead_letters=self._letters.info().state.messages,
        )
        self.samples.append(sample)
        return sample

    def finish(self, show: Callable[[Sample], object], *, timeout: float) -> None:
        """Stop the hosts; when all is processed, stop the rest. Raises `Error` after `timeout` seconds."""
        for source in self.sources:
            source.stop()
        self._until(lambda sample: sample.done, show, timeout)
        for command in (*self.agents, self.job):
            if command is not None:
                command.stop()
        shipped = self._shipped + sum(map(_lines, self.agents))  # Final: the agents have ended.
        self.samples.append(dataclasses.replace(self.last, shipped=shipped))
        show(self.last)

    def _until(
        self, condition: Callable[[Sample], bool], show: Callable[[Sample], object], timeout: float
    ) -> None:
        """Take and show samples until one fulfills a condition."""
        deadline = time.monotonic() + timeout
        while not condition(sample := self.sample()):
            show(sample)
            if time.monotonic() > deadline:
                raise Error(
                    f"of {sample.written} lines, {sample.stored} were stored and {sample.processed} "
                    f"processed in {timeout:g} s"
                )
            time.sleep(_LOOK)
        show(sample)

    def _start_job(self) -> Command:
        return self._kept(Command("pipeline", "run", str(self.config), "--json", log=self.place / "job.log"))

    def _start_agent(self, source: LogSource) -> Command:
        self._agent_count += 1
        command = Command(
            *("ship", "--host", source.name, "--server", self.server.url, "--metrics", "500ms", "--json"),
            *("--positions", str(self.place / f"positions-{source.name}.json")),
            *source.ship,
            log=self.place / f"agent-{source.name}-{self._agent_count}.log",
        )
        return self._kept(command)

    def _kept(self, command: Command) -> Command:
        self._stack.callback(command.kill)
        return command


def _lines(agent: Command) -> int:
    return int(agent.last["lines"]) if agent.last else 0
