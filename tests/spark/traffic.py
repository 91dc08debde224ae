"""Messages that are published into a stream all the time, from a thread of their own, and their end."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame

from jetspark import blocking
from tests.spark.support import to_parquet
from tests.support.ledger import Ledger

__all__ = ["Traffic", "read_rest"]

WRITERS = ("a", "b", "c")


class Traffic:
    """Publishes from entering the context until `stop`; the ledger records what the stream stores."""

    def __init__(
        self, js: blocking.JetStream, stream: str, ledger: Ledger, *, burst: int = 5, pause: float = 0.05
    ) -> None:
        self._js = js
        self._subject = f"{stream}.a"
        self._ledger = ledger
        self._burst = burst
        self._pause = pause
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._error: BaseException | None = None
        self.sequences: dict[bytes, int] = {}
        """Where each message is in the stream."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def stop(self) -> None:
        """Stop publishing. Every published message is acknowledged when it returns."""
        self._stopped.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with self._js.publisher(timeout=60) as publisher:
                while not self._stopped.wait(self._pause):
                    payloads = [self._ledger.attempt(writer) for writer in WRITERS * self._burst]
                    acks = [(payload, publisher.publish(self._subject, payload)) for payload in payloads]
                    for payload, ack in acks:
                        self.sequences[payload] = ack.result(60).sequence
                        self._ledger.acknowledge(payload)
        except BaseException as error:
            self._error = error


def read_rest(frame: DataFrame, place: Path) -> None:
    """Let a query read everything that is left. (Before Spark 4.2 `availableNow` may read less.)"""
    query = to_parquet(frame, place, processingTime="0 seconds")
    try:
        query.processAllAvailable()
    finally:
        query.stop()
