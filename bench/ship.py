"""One agent that ships a file, compared with the publisher that it is built on and with a raw socket.

All publish the same number of messages of the same size to a fresh stream on disk, with message ids. The
agent runs as a separate process, as users run it: its time includes starting the interpreter, reading and
splitting the file, and storing positions.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import jetspark
import jetspark.server
from bench import raw
from bench.harness import Contender, Stopwatch, compete
from jetspark import StreamConfig
from jetspark.server import Server

WINDOW = 4096


class Suite:
    def __init__(
        self, server: Server, js: jetspark.JetStream, directory: Path, lines: int, size: int
    ) -> None:
        self.server, self.js, self.directory = server, js, directory
        self.lines = lines
        self.payload = b"x" * (size - 8)
        self.file = directory / "bench.log"
        with self.file.open("wb") as file:
            for number in range(lines):
                file.write(b"%07d " % number + self.payload + b"\n")
        self.payload = b"%07d " % 0 + self.payload
        self.runs = 0

    async def measured(self, work: str) -> float:
        stream = await self.js.create_stream(StreamConfig(name="BENCH", subjects=["logs.>"]))
        try:
            rate = await getattr(self, work)()
            stored = (await stream.info()).state.messages
            if stored != self.lines:
                raise RuntimeError(f"{work}: {stored} messages are stored")
            return rate
        finally:
            await self.js.delete_stream("BENCH")

    async def agent(self) -> float:
        """Measure the whole process, as users run it; the rate that it reports excludes its start."""
        self.runs += 1
        command = ["ship", str(self.file), "--once", "--json", "--metrics", "0", "--host", "bench"]
        positions = self.directory / f"positions-{self.runs}.json"
        with Stopwatch() as watch:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "jetspark",
                *command,
                "--positions",
                str(positions),
                env={**os.environ, "NATS_URL": self.server.url},
                stdout=subprocess.PIPE,
            )
            output, _ = await process.communicate()
        own = json.loads(output)
        if own["lines"] != self.lines or own["duplicates"]:
            raise RuntimeError(f"the agent says {own}")
        return watch.rate(self.lines)

    async def publisher(self) -> float:
        async with jetspark.connect(self.server.url) as nc:
            with Stopwatch() as watch:
                async with nc.jetstream().publisher(WINDOW) as publisher:
                    for _ in range(self.lines):
                        await publisher.send("logs.0.bench", self.payload)
        return watch.rate(self.lines)

    async def raw_ids(self) -> float:
        with Stopwatch() as watch:
            raw.publish_acknowledged(
                self.server.port, "logs.0.bench", self.payload, self.lines, WINDOW, message_ids=True
            )
        return watch.rate(self.lines)


async def run(arguments: Namespace) -> None:
    """All ways to publish lines to a stream."""
    with jetspark.server.run() as server, tempfile.TemporaryDirectory() as directory:
        async with jetspark.connect(server.url) as nc:
            suite = Suite(server, nc.jetstream(), Path(directory), arguments.messages, arguments.size)
            await compete(
                f"{arguments.messages:,} lines of {arguments.size} bytes, {WINDOW} under way",
                [
                    Contender(name, lambda work=work: suite.measured(work))
                    for name, work in (
                        ("jetspark ship, one process", "agent"),
                        ("publisher", "publisher"),
                        ("raw socket", "raw_ids"),
                    )
                ],
                rounds=arguments.rounds,
                peer="publisher",
                ceiling="raw socket",
            )
