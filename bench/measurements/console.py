"""The web console beside a server with many streams and consumers: its CPU, and what it costs the server."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import jetspark
import jetspark.blocking
import jetspark.server
from bench.cpu import cpu_times
from bench.harness import Column, Contender, Measurement, Sample
from jetspark import ConsumerConfig, StorageType, StreamConfig

STREAMS: Final = 200
CONSUMERS: Final = 5
#: Messages a second that are published meanwhile, so that the figures move.
RATE: Final = 100
#: Seconds before a measurement, in which the console reads everything for the first time.
WARM_UP: Final = 15.0
#: Milliseconds for a page to open.
LONG: Final = 120_000


class Bed:
    """A server with streams and consumers, and a publisher to all of them."""

    def __init__(self, server: jetspark.server.Server, js: jetspark.blocking.JetStream) -> None:
        self.server, self.js = server, js

    def requests(self) -> int:
        """Requests to the API of JetStream so far."""
        return self.js.account_info().api.total


@contextmanager
def bed(size: int, count: int) -> Iterator[Bed]:
    with jetspark.server.run() as server, jetspark.blocking.connect(server.url) as nc:
        asyncio.run(_fill(server.url))
        js = nc.jetstream()
        stop = threading.Event()

        def publish() -> None:
            number = 0
            while not stop.wait(1 / RATE):
                number += 1
                nc.publish(f"bench.{number % STREAMS}", b"x" * size)

        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            yield Bed(server, js)
        finally:
            stop.set()
            publisher.join()


async def _fill(url: str) -> None:
    async with jetspark.connect(url) as nc:
        js = nc.jetstream(timeout=60)
        for number in range(STREAMS):
            name = f"STREAM-{number}"
            await js.create_stream(
                StreamConfig(
                    name=name, subjects=[f"bench.{number}"], storage=StorageType.MEMORY, max_msgs=1000
                )
            )
            await asyncio.gather(
                *(
                    js.create_consumer(name, ConsumerConfig(durable_name=f"worker-{each}", mem_storage=True))
                    for each in range(CONSUMERS)
                )
            )


def alone(bed: Bed, count: int) -> Sample:
    """The server without a console."""
    return _measure(bed, count, None)


def watched(bed: Bed, count: int, *, tabs: int) -> Sample:
    """The console, with its overview open in so many tabs."""
    command = [sys.executable, "-m", "jetspark", "console", "--port", "0", "--server", bed.server.url]
    with ExitStack() as stack:
        console = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(console.wait)
        stack.callback(console.terminate)
        assert console.stdout is not None
        url = console.stdout.readline().strip()
        if tabs:
            stack.enter_context(_open(url, tabs))
        time.sleep(WARM_UP)
        return _measure(bed, count, console.pid)


@contextmanager
def _open(url: str, tabs: int) -> Iterator[None]:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise RuntimeError("there is no Chromium: run it with scripts/with-chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        for _ in range(tabs):
            page = context.new_page()
            page.goto(url, timeout=LONG)
            page.wait_for_function("() => window.did_handshake", timeout=LONG)
        yield
        browser.close()


def _measure(bed: Bed, seconds: int, console: int | None) -> Sample:
    pid = bed.server.pid
    assert pid is not None
    requests, server = bed.requests(), cpu_times(pid)[0]
    own = cpu_times(console)[0] if console is not None else 0.0
    start = time.perf_counter()
    time.sleep(seconds)
    took = time.perf_counter() - start
    sample = {"server": 100 * (cpu_times(pid)[0] - server) / took}
    # The request that asks for the number counts, too.
    sample["requests"] = max(bed.requests() - requests - 1, 0) / took
    if console is not None:
        sample["core"] = 100 * (cpu_times(console)[0] - own) / took
        sample["memory"] = _resident(console) / (1 << 20)
    return sample


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _watched(tabs: int) -> Any:
    return functools.partial(watched, tabs=tabs)


CONSOLE: Final = Measurement(
    name="console",
    title="The web console",
    text=f"""
    `jetspark console` beside a server with {STREAMS} streams and {STREAMS * CONSUMERS:,} consumers, to which
    {RATE} messages a second are published. CPU is in percent of one core, that of the server without the
    console first. Requests are those to the API of JetStream. One collector polls for all tabs, at a bounded
    pace: more streams make the figures older, not the console busier.
    """,
    bed=bed,
    contenders=(
        Contender("no console", alone, "jetspark"),
        Contender("console, nobody looks", _watched(0), "jetspark", needs=("nicegui",)),
        Contender("console, overview open", _watched(1), "jetspark", needs=("nicegui", "playwright")),
        Contender("console, five tabs open", _watched(5), "jetspark", needs=("nicegui", "playwright")),
    ),
    count=60,
    quick=5,
    rounds=3,
    columns=(
        Column("core", "console CPU, % of a core", "{:.1f}"),
        Column("server", "server CPU, % of a core", "{:.1f}"),
        Column("requests", "requests/s", "{:.1f}"),
        Column("memory", "memory, MiB", "{:.0f}"),
    ),
)
