"""The tables and details that commands print for people, from one server with known streams and buckets."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from jetspark.server import Server
from tests.cli.support import Cli, Terminal
from tests.support.golden import Golden

# What differs from run to run, with masks of the same width: times, and sizes that hold a time.
MASKS = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-01-31 12:00:00"),
    (r"(?<= )\d{3} B\b", "999 B"),
    (r"(Paused: for) \S+", r"\1 30d"),
    (r"by \S+@\S+", "by USER@HOST"),
)

PREPARE = (
    "stream add ORDERS --subjects orders.> --description Orders --max-age 7d",
    "stream add EMPTY --subjects empty --storage memory --retention work --max-msgs 1000",
    "pub orders.eu hello --count 3",
    "pub orders.us hello",
    "stream rmm ORDERS 2 --force",
    "consumer add ORDERS billing --filter orders.eu --max-deliver 5 --description Bills",
    "consumer add ORDERS push --target push.orders --ack none",
    "consumer next ORDERS billing --count 1",
    "consumer pause ORDERS billing 30d",
    "kv add prices --history 5 --description Prices",
    "kv put prices eur.usd 1.10",
    "kv put prices eur.usd 1.11",
    "kv del prices eur.usd --force",
    "kv put prices eur.gbp 0.85",
    "object add files --description Files",
    "pause --shippers --consumers ORDERS/push --wait 10ms",
)

SHOWN = (
    "stream ls",
    "stream ls --names",
    "stream info ORDERS",
    "stream info EMPTY",
    "stream subjects ORDERS",
    "stream gaps ORDERS",
    "consumer ls ORDERS",
    "consumer ls EMPTY",
    "consumer info ORDERS billing",
    "consumer info ORDERS push",
    "consumer report ORDERS",
    "kv ls",
    "kv ls prices",
    "kv info prices",
    "kv history prices eur.usd",
    "object ls",
    "object ls files",
    "object info files",
    "object info files notes.txt",
    "pause --status",
)


def masked(text: str, server: Server) -> str:
    text = text.replace(server.name, "SERVER")
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    return text


def test_tables_and_details_are_as_in_the_golden_file(
    cli: Cli,
    terminal: Callable[..., Terminal],
    server: Server,
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NATS_URL", server.url)
    for line in PREPARE:
        cli(*line.split())
    cli("object", "put", "files", "--name", "notes.txt", stdin=b"notes")
    texts = [f"$ jetspark {line}\n{cli(*line.split()).out}" for line in SHOWN]
    for columns in (100, 60):
        shown = terminal("stream", "ls", env={"NATS_URL": server.url, "COLUMNS": str(columns)})
        assert shown.end() == 0
        plain = re.sub(r"\x1b\[[\d;]*m", "", shown.seen).replace("\r", "")
        texts.append(f"$ jetspark stream ls  # on a terminal of {columns} columns\n{plain}")
    golden("tables", masked("\n".join(texts), server))
