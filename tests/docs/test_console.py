"""The console blocks of the guides print what they show. docs/pipeline.md has its test in tests/logs/job."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jetspark import ConsumerConfig, blocking
from jetspark.server import Server
from tests.cli.support import Cli, Process
from tests.docs.console import ROOT, Page, mask
from tests.docs.logs import access_log
from tests.logs.conftest import cli, no_settings, process
from tests.support.cases import for_each
from tests.support.waiting import wait_until

__all__ = ["cli", "no_settings", "process"]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, in which the commands run."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    (directory / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(directory)
    return directory


@for_each(
    ("one", "other"),
    [
        ("in 1.10 s: 9,108 messages/s", "in 0.1 s: 12 messages/s"),
        ("Last: 2026-11-16 02:16:18", "Last:   2027-01-01 00:00:00"),
        ("[#1] 847.5 KiB", "[#1] 9 B"),
        ("acknowledged  149us  1.95ms", "acknowledged  1.1s  2us"),
    ],
)
def test_measurements_are_masked(one: str, other: str) -> None:
    assert mask(one) == mask(other)


def test_other_numbers_are_not() -> None:
    assert mask("Messages: 10,001") != mask("Messages: 10,002")
    assert mask("ORDERS#1, 5 pending") != mask("ORDERS#1, 6 pending")


def test_readme(cli: Cli, scratch: Path) -> None:
    logs = scratch / "var/log/nginx"
    logs.mkdir(parents=True)
    access_log(logs / "access.log", 10)
    page = Page(
        "README.md",
        not_run={
            "make ": "tests/docs/test_coverage.py knows the targets",
            "jetspark pipeline run": "tests/logs/job/test_guide.py",
        },
        silent=("jetspark ship", "jetspark pause"),
    )
    page.run(cli, scratch)


def test_the_command_line(cli: Cli, server: Server, scratch: Path) -> None:
    def acknowledged() -> bool:
        return bool(cli.json("consumer", "info", "ORDERS", "billing")["num_ack_pending"] == 0)

    page = Page(
        "docs/cli.md",
        before={
            "jetspark consumer ls": lambda: wait_until(acknowledged, "the acknowledgements"),
            "jetspark events": lambda: threading.Thread(target=give_up, args=[server.url]).start(),
        },
        not_run={"jetspark export LOGS": "a million messages"},
        endless=("jetspark server run",),
    )
    page.run(cli, scratch)


def test_the_console(cli: Cli, scratch: Path) -> None:
    page = Page(
        "docs/console.md",
        before={"jetspark stream edit": lambda: cli("stream", "add", "ADVISORIES", "--subjects", "a.>")},
        not_run={"pip install": "scripts/try-wheels"},
        endless=("jetspark console",),
        silent=("jetspark stream edit",),
    )
    page.run(cli, scratch)


def give_up(url: str) -> None:
    """Deliver the next message of `billing` as often as it may be, without an acknowledgement."""
    with blocking.connect(url) as connection:
        consumer = connection.jetstream().get_consumer("ORDERS", "billing")
        for _ in range(2):
            time.sleep(4)  # More than the ack wait; and `events` listens by then.
            consumer.fetch(1, expires=2.0)
        time.sleep(4)
        consumer.fetch(1, expires=2.0).ack()  # The next message: the server gives the former one up.


def test_shipping(cli: Cli, scratch: Path) -> None:
    (scratch / "logs").mkdir()
    access_log(scratch / "logs/access.log")

    def misspelled() -> None:
        page = (ROOT / "docs/ship.md").read_text()
        text = page.partition("```toml\n")[2].partition("```")[0]
        (scratch / "shipper.toml").write_text(text.replace('"java"', '"jav"'))

    Page("docs/ship.md", before={"jetspark ship --config": misspelled}).run(cli, scratch)


def test_log_files(cli: Cli, scratch: Path) -> None:
    (scratch / "logs").mkdir()
    access_log(scratch / "logs/access.log")
    cli("ship", "logs/*.log", "--host", "web1.example.com", "--create", "LOGS", "--once")
    page = Page(
        "docs/consume-logs.md",
        not_run={"jetspark consume-logs LOGS small": "tests/logs/files/test_consumer.py has a full disk"},
    )
    page.run(cli, scratch)


def test_the_stop_button(cli: Cli, process: Callable[..., Process], server: Server, scratch: Path) -> None:
    """An agent follows a log of one line, and a consumer waits."""
    (scratch / "app.log").write_text("one line\n")
    agent = process("ship", "app.log", "--host", "web1.example.com", "--create", "LOGS", cwd=scratch)

    with blocking.connect(server.url) as connection:
        js = connection.jetstream()
        wait_until(lambda: "LOGS" in js.stream_names() and stored(js) == 1, "the line")
        js.create_consumer("LOGS", ConsumerConfig(durable_name="log-files"))

    def pause_again() -> None:
        cli("pause", "--shippers", "--consumers", "LOGS/log-files", "--for", "10m")
        with (scratch / "app.log").open("a") as file:
            file.write("another one\n")

        def told() -> bool:
            return [each["behind"] for each in cli.json("pause", "--status")["agents"]] == [12]

        wait_until(told, "the agent to tell of the line that waits")

    Page("docs/pause.md", before={"jetspark pause --status --json": pause_again}).run(cli, scratch)
    agent.signal(signal.SIGTERM)
    assert agent.end().code == 0


def stored(js: blocking.JetStream) -> int:
    return js.get_stream("LOGS").info().state.messages
