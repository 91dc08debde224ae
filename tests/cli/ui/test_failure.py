"""Errors of the library in the words of the command line."""

from __future__ import annotations

import re

import pytest

from jetspark import errors
from jetspark.cli.ui.failure import describe
from tests.cli.support import Cli

#: Names of the Python API: `filter_subject`, `allow_atomic=True`, `js.create_stream(...)`.
_PYTHON = re.compile(r"\b(?!the setting )[a-z]+_[a-z_]+\b|=True|=\d|\bjs\.|\(\.\.\.\)")


@pytest.mark.parametrize("err_code", sorted(errors._HINTS))
def test_hints_have_no_names_of_the_library(err_code: int) -> None:
    wire = {"code": 400, "err_code": err_code, "description": "refused"}
    line, _ = describe(errors.APIError.from_wire(wire, stream="ORDERS"))
    # Settings that no option has are named as the server names them.
    assert _PYTHON.search(re.sub(r"the setting \w+", "", line)) is None, line


def test_a_second_consumer_of_a_work_queue_is_told_to_filter(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>", "--retention", "work")
    cli("consumer", "add", name, "a")
    line = cli.fails("consumer", "add", name, "b", code=1)
    assert "filter_subject" not in line
    assert "give it a subject filter" in line


@pytest.mark.parametrize(
    ("command", "accepted"),
    [
        (["consumer", "add", "S", "c", "--ack", "nope"], "explicit, all, none"),
        (["consumer", "add", "S", "c", "--replay", "nope"], "instant, original"),
        (["stream", "add", "S", "--storage", "nope"], "file, memory"),
        (["stream", "add", "S", "--retention", "nope"], "limits, interest, workqueue"),
        (["stream", "add", "S", "--discard", "nope"], "old, new"),
        (["events", "--kind", "nope"], "max_deliver"),
        (["ship", "x", "--compress", "nope"], "gzip"),
        (["sub", "--stream", "S", "--deliver", "nope"], "all, new, last"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_word_that_is_not_accepted_gets_a_list_of_those_that_are(
    cli: Cli, command: list[str], accepted: str
) -> None:
    assert accepted in cli.fails(*command, code=2)


@pytest.mark.parametrize(("count", "said"), [(1, "1 message was"), (2, "2 messages were")])
def test_one_is_not_many(count: int, said: str) -> None:
    error = errors.PublishError("x", failed=count)
    error.__cause__ = errors.Timeout("too late")
    assert describe(error)[0].startswith(f"{said} not stored: too late")
