"""A worker that is not Spark, in a process of its own: `python -m tests.spark.queue.plain_worker <job>`.

It handles a message by writing its text and the number of its deliveries to a file, and then acknowledges it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jetspark import blocking
from tests.spark.processes import Program

__all__ = ["PlainWorker", "handled"]


class PlainWorker(Program):
    """The worker as the test sees it."""

    def __init__(self, place: Path, url: str, stream: str, consumer: str) -> None:
        job = {"url": url, "stream": stream, "consumer": consumer, "out": str(place / "handled")}
        super().__init__([sys.executable, "-m", __name__, json.dumps(job)], place / "worker.log")


def handled(place: Path) -> Iterator[tuple[str, int]]:
    """What workers wrote there: texts, and how often each had been delivered."""
    for line in (place / "handled").read_text().splitlines():
        text, _, count = line.partition(" ")
        if count:  # The last line of a worker that was killed may be cut.
            yield text, int(count)


def main(job: dict[str, Any]) -> None:
    with blocking.connect(job["url"]) as connection, open(job["out"], "a") as out:
        worker = connection.jetstream().get_consumer(job["stream"], job["consumer"])
        out.write("\n")
        while True:
            for message in worker.fetch(20, expires=1.0):
                time.sleep(0.005)  # The work.
                out.write(f"{message.data.decode()} {message.metadata.num_delivered}\n")
                out.flush()
                message.ack_sync()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
