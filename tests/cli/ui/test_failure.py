"""Errors of the library in the words of the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import jetspark
from jetspark import errors
from jetspark.cli.args.table import name_flags
from jetspark.cli.ui.failure import describe
from tests.cli.support import Cli
from tests.cli.test_text_arguments import LEAVES
from tests.support.cases import for_each

#: Names of the Python API: `filter_subject`, `allow_atomic=True`, `js.create_stream(...)`.
_PYTHON = re.compile(r"\b(?!the setting )[a-z]+_[a-z_]+\b|=True|=\d|\bjs\.|\(\.\.\.\)")


@for_each("err_code", sorted(errors._HINTS))
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


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("stream ls --tlskey nope", "--tlskey needs --tlscert"),
        ("stream ls --js-domain a --js-api-prefix b", "--js-domain and --js-api-prefix exclude each other"),
        ("stream add NAME --replicas 9", "--replicas 9 is not from 1 to 5"),
        ("stream add NAME --subjects a --mirror S", "--subjects 'a' is not possible on a mirror"),
        ("consumer add NAME c --flow-control --target a.b", "--flow-control needs --heartbeat"),
        ("consumer add NAME c --backoff 1s,2s --max-deliver 1", "--backoff 1.0,2.0 has more entries than"),
        ("consumer add NAME a.b", "name 'a.b' is not valid"),
        ("kv add NAME --ttl 1ms", "--ttl 0.001 is neither 0 nor at least 0.1 seconds"),
        ("kv add NAME --replicas 9", "--replicas 9 is not from 1 to 5"),
        ("kv add NAME --marker-ttl 1ms", "--marker-ttl 0.001 is neither 0 nor at least 1 second"),
        (
            "kv get NAME a..b",
            "key 'a..b' is not valid; accepted: letters, digits, - / _ = and dots between them",
        ),
        ("object add NAME --ttl 1ms", "--ttl 0.001 is neither 0 nor at least 0.1 seconds"),
        ("object put NAME x --chunk-size 10GB", "--chunk-size 10737418240 is not accepted"),
        ("ship x --partitions 0", "--partitions must be from 1 to 100000, not 0"),
        ("ship x --window 0", "--window must be from 1 to 1000000, not 0"),
        ("ship x --max-line 1", "--max-line must be from 256 to 67108864, not 1"),
        ("ship x --multiline java --multiline-lines 0", "--multiline-lines must be from 1 to 1000000, not 0"),
        ("ship x --multiline java --multiline-timeout 0s", "--multiline-timeout must be from 0.001 to"),
    ],
)
def test_errors_of_the_library_name_the_flags(cli: Cli, name: str, command: str, said: str) -> None:
    if command.startswith("kv get"):
        cli("kv", "add", name)
    line = cli.fails(*command.replace("NAME", name).split(), code=2)
    assert said in line
    assert not _PYTHON.search(line.replace(name, "").replace("See `", "")), line


def test_errors_of_the_server_name_the_commands(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>")
    cli("consumer", "add", name, "push", "--target", f"{name}-target")
    assert "Read that subject with `jetspark sub`" in cli.fails("consumer", "next", name, "push", code=1)
    cli("kv", "add", name)
    assert "Update it with `jetspark kv edit --marker-ttl`" in cli.fails(
        "kv", "put", name, "k", "v", "--ttl", "5s", code=2
    )
    assert "Use `jetspark kv edit`, or another name" in cli.fails("kv", "add", name, "--history", "5", code=1)
    cli("object", "add", name)
    assert "Choose another name" in cli.fails("object", "add", name, "--ttl", "5s", code=1)


def texts(package: str) -> Iterator[tuple[str, str, str]]:
    """Where a package raises an error, its text and its hint; 7 stands for values."""
    kinds = {"Failure", *(name for name, each in vars(errors).items() if isinstance(each, type))}
    for file in sorted((Path(jetspark.__file__).parent / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds:
                hint = [each.value for each in node.keywords if each.arg == "hint"] or node.args[1:2]
                text, more = (written(each) for each in [*node.args[:1], *hint, None, None][:2])
                yield f"{file.name}:{node.lineno}", text, more


def written(node: ast.AST | None) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(written, node.values))
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "" if node is None else "7"


@pytest.mark.parametrize("package", ["cli", "logs"])
def test_no_error_of_a_command_has_a_name_of_the_library(package: str) -> None:
    flags = {each.name: each.opts[0] for command in LEAVES.values() for each in command.params if each.opts}
    flags = {name: flag for name, flag in flags.items() if flag.startswith("--")}
    flags["max_lines"] = "--multiline-lines"
    found, raised = [], list(texts(package))
    assert len(raised) > 40
    for place, text, hint in raised:
        error = errors.UsageError(name_flags(text, flags), hint=name_flags(hint, flags) or None)
        line, _ = describe(error)
        if _PYTHON.search(line):
            found.append(f"{place}: {line}")
    assert found == []
