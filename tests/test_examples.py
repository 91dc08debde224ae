"""Every example runs and prints what it promises; those with Spark have their test in tests/spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetspark import StreamConfig, blocking
from jetspark.server import Server
from tests.spark import test_examples as test_spark_examples

EXAMPLES = Path(__file__).parents[1] / "examples"

# What the last line of each example says.
LAST_LINES = {
    "all_or_nothing": "still 2 entries",
    "blocking": "iterated 4",
    "classic_fetch": (
        "no message of EXAMPLE_ORDERS > billing within 0.5 s. No message is available, or max_ack_pending "
        "messages wait for acknowledgement"
    ),
    "consume_with_a_handler": "handled 20 of 20",
    "core_nats": "no responders on 'nobody.home'. Is the service running, and in this account?",
    "dead_letters": "dead after 3 deliveries: 'not an address'",
    "iterate_messages": "web1 wrote 333 lines",
    "key_value": "cached: {'eur.usd': '1.11'}",
    "look_up": "stream EXAMPLE_STATE: no message found (10037)",
    "object_store": "objects: ['model.bin', 'latest']",
    "publish_many": "stored 10001",
    "queue_of_workers": "40 jobs, the last 20 by the one that stayed",
    "quickstart": "0 to acknowledge, 0 to deliver",
    "replay_in_order": "[60, 62, 64, 66, 68]",
    "work_queue": "left in the queue: 0",
}


@pytest.fixture(scope="module")
def one_server() -> Iterator[Server]:
    with Server() as running:
        yield running


def run(name: str, url: str) -> list[str]:
    """The lines that an example prints."""
    result = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        env={**os.environ, "NATS_URL": url},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_no_example_is_forgotten() -> None:
    tested = LAST_LINES.keys() | test_spark_examples.LAST_LINES.keys()
    assert {path.stem for path in EXAMPLES.glob("*.py")} - {"example_server"} == tested


@pytest.mark.parametrize("name", sorted(LAST_LINES))
def test_an_example_runs_and_prints_what_it_promises(name: str, one_server: Server) -> None:
    assert run(name, one_server.url)[-1] == LAST_LINES[name]


def test_the_examples_use_streams_of_their_own_and_leave_none(one_server: Server) -> None:
    with blocking.connect(one_server.url) as connection:
        js = connection.jetstream()
        js.create_stream(StreamConfig(name="STATE", subjects=["state.*"]))
        # What a run that was interrupted left behind is no hindrance.
        js.create_stream(StreamConfig(name="EXAMPLE_STATE", subjects=["example.>"]))
        assert run("look_up", one_server.url)[-1] == LAST_LINES["look_up"]
        assert "STATE" in js.stream_names()
        assert "EXAMPLE_STATE" not in js.stream_names()


@pytest.mark.parametrize("name", ["all_or_nothing", "key_value", "object_store"])
def test_an_example_starts_a_server_if_none_answers(name: str) -> None:
    first, *_, last = run(name, "nats://127.0.0.1:1")
    assert first == "No server answers on nats://127.0.0.1:1: the example starts one of its own."
    assert last == LAST_LINES[name]


def test_every_example_has_a_server() -> None:
    for name in LAST_LINES.keys() | test_spark_examples.LAST_LINES.keys():
        text = (EXAMPLES / f"{name}.py").read_text()
        assert "with example_server(" in text or "jetspark.server.run()" in text, name
