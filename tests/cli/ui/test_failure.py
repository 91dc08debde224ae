"""Errors of the library in the words of the command line."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import jetspark
from jetspark import errors
from jetspark.cli.args.table import name_flags
from jetspark.cli.ui.failure import describe
from tests.cli.support import Cli
from tests.cli.test_text_arguments import LEAVES
from tests.support.cases import Cases, for_each
from tests.support.golden import Golden

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


@pytest.mark.parametrize(("count", "said"), [(1, "1 message was"), (2, "2 messages were")])
def test_one_is_not_many(count: int, said: str) -> None:
    error = errors.PublishError("x", failed=count)
    error.__cause__ = errors.Timeout("too late")
    assert describe(error)[0].startswith(f"{said} not stored: too late")


# Refused by the command line itself.
OWN = [
    "consumer add S c --ack nope",
    "consumer add S c --replay nope",
    "stream add S --storage nope",
    "stream add S --retention nope",
    "stream add S --discard nope",
    "events --kind nope",
    "ship x --compress nope",
    "sub --stream S --deliver nope",
    "stream add NEW --max-age soon",
    "stream add NEW --max-bytes 10XB",
    "stream add NEW --storage tape",
    "stream add NEW --max-msgs many",
    "stream add NEW --metadata novalue",
    "stream add NEW --max-age 10ms",
    "stream add NEW --colour red",
    "stream add NEW --subjects 'a b'",
    "consumer add NAME c --ack maybe",
    "consumer add NAME c --deliver sometime",
    "consumer add NAME c --backoff 1s,x",
    "consumer add NAME c --pull --target x",
    "consumer add NAME c --flow-control",
    "consumer add NAME bad.name",
    "consumer add NAME",
    "pub 'a b' x",
    "pub a x --count 0",
    "pub a x --count some",
    "pub a x --size big",
    "pub a x -H no-colon",
    "pub a x -H 'bad name:x'",
    "pub a x --lines",
    "pub a x --reply r",
    "pub",
    "sub",
    "sub a --ack",
    "sub a --deliver all",
    "sub --stream S --queue q",
    "sub --stream S --consumer c --deliver all",
    "sub --stream S --deliver 1 --since 1h",
    "sub 'a.>.b'",
    "export NAME --format parquet",
    "export NAME --format csv",
    "export NAME -o x.csv",
    "export NAME -o x.jsonl.gz",
    "export NAME -o /no/such/directory/x.jsonl",
    "export NAME -o /",
    "export NAME --start-sequence 1 --since 1h",
    "export NAME --since yesterday",
]
# Refused by the library, whose texts name fields.
OF_THE_LIBRARY = [
    "stream ls --tlskey nope",
    "stream ls --js-domain a --js-api-prefix b",
    "stream add NAME --replicas 9",
    "stream add NAME --subjects a --mirror S",
    "consumer add NAME c --flow-control --target a.b",
    "consumer add NAME c --backoff 1s,2s --max-deliver 1",
    "consumer add NAME a.b",
    "kv add NAME --ttl 1ms",
    "kv add NAME --replicas 9",
    "kv add NAME --marker-ttl 1ms",
    "kv get NAME a..b",
    "object add NAME --ttl 1ms",
    "object put NAME x --chunk-size 10GB",
    "ship x --partitions 0",
    "ship x --window 0",
    "ship x --max-line 1",
    "ship x --multiline java --multiline-lines 0",
    "ship x --multiline java --multiline-timeout 0s",
]


def test_what_is_refused_is_told_on_one_line_with_flags(cli: Cli, stream: str, golden: Golden) -> None:
    cli("kv", "add", stream)
    told, cases = [], Cases()
    for command in (*OWN, *OF_THE_LIBRARY):
        with cases.case(command):
            line = cli.fails(*(stream if word == "NAME" else word for word in shlex.split(command)), code=2)
            line = line.replace(stream, "NAME")
            if command in OF_THE_LIBRARY:
                assert not _PYTHON.search(line.replace("See `", "")), line
            told += [f"$ jetspark {command}", line]
    cases.end()
    golden("errors-cli", "\n".join(told))


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
