"""Derived blocking methods are typed for users: mypy sees their parameters and results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
from collections.abc import Iterator
from typing import assert_type

import jetspark
from jetspark import blocking


def program(
    js: blocking.JetStream, nc: blocking.Connection, pulled: blocking.PullSubscription
) -> None:
    stream = js.create_stream(jetspark.StreamConfig(name="S"))
    assert_type(stream, blocking.Stream)
    assert_type(stream.info(deleted_details=True), jetspark.StreamInfo)
    assert_type(stream.purge(keep=1), int)
    assert_type(js.streams(), Iterator[jetspark.StreamInfo])
    assert_type(js.ordered_consumer("S", opt_start_seq=2), blocking.OrderedConsumer)
    assert_type(js.publish("s", b"", msg_id="1"), jetspark.PubAck)
    assert_type(js.atomic_batch(timeout=1.0), blocking.AtomicBatch)
    assert_type(nc.request("s"), blocking.Msg)
    assert_type(nc.rtt(), float)
    assert_type(blocking.connect("nats://127.0.0.1", name="n"), blocking.Connection)
    consumer = stream.get_consumer("C")
    assert_type(consumer, blocking.Consumer)
    assert_type(consumer.fetch(10, expires=1.0), blocking.Batch)
    assert_type(consumer.next(), blocking.JetStreamMsg | None)
    assert_type(pulled.fetch(2, timeout=1.0), blocking.Batch)
    # Each of these is an error, so mypy reports an ignore that is not needed if the check is lost.
    blocking.connect(servers=[], nam="n")  # type: ignore[call-arg]
    stream.info(deleted=True)  # type: ignore[call-arg]
    js.publish("s", "text")  # type: ignore[arg-type]
    js.ordered_consumer("S", start=2)  # type: ignore[call-arg]
    js.get_consumer("S")  # type: ignore[call-arg]
    consumer.fetch(expires="1")  # type: ignore[arg-type]
"""


def test_mypy_knows_the_parameters_and_results_of_derived_methods(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--cache-dir",
        str(ROOT / ".mypy_cache"),
        str(program),
    ]
    found = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert found.stdout.startswith("Success"), found.stdout + found.stderr
