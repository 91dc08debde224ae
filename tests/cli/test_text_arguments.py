"""Whatever bytes a shell, a variable or a file gives, a command ends with an exit code and one clear line.

The parameters are read from the commands, so that a new one is tested without a line here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from jetspark.cli.args import start, units
from jetspark.cli.main import load
from jetspark.cli.settings import COMMON
from jetspark.server import Server
from tests.cli.support import Cli
from tests.cli.test_tree import COMMANDS
from tests.support.cases import for_each

#: A byte that is not UTF-8, as an argument has it; URLs, durations, numbers, paths and times out of range.
ODD = ["a\udcff", "nats://[::1", "999999999y", "9" * 5000, "~nobody-here/x", "0001-01-01T00:00+23:59"]

SOON = ("--timeout", "100ms")
# Starts Spark, whatever its arguments.
LEFT_OUT = ("demo",)


def leaves() -> Iterator[tuple[str, Any]]:
    for name in sorted({name.split()[0] for name in COMMANDS}):
        loaded = load(name)
        for leaf, command in getattr(loaded, "commands", {}).items():
            yield f"{name} {leaf}", command
        if not hasattr(loaded, "commands"):
            yield name, loaded


LEAVES = {name: command for name, command in leaves() if name not in LEFT_OUT}


def own_parameters(command: Any) -> list[Any]:
    """The parameters that take a value, without those that every command has."""
    return [
        each
        for each in command.params
        if each.name not in COMMON and each.name != "help" and not getattr(each, "is_flag", False)
    ]


def with_value(name: str, command: Any, parameter: Any, value: str, server: Server) -> list[str]:
    """The arguments of a command, with one replaced or added."""
    given = [*COMMANDS[name], *(["--core"] if name == "pub" else [])]  # It would wait for a stream.
    if name in ("server run", "console"):
        given = ["--port", str(server.port)]  # It is taken, so that no server starts.
    if parameter.param_type_name != "argument":
        return [*given, parameter.opts[0], value]
    places = [each.name for each in command.params if each.param_type_name == "argument"]
    place = places.index(parameter.name)
    positional = next((index for index, each in enumerate(given) if each.startswith("-")), len(given))
    replaced = [*given[:place], value, *given[place + 1 : positional]]
    return [*replaced, *given[positional:]]


def is_parsed_later(parameter: Any) -> bool:
    """Whether the command parses a text itself."""
    return re.search("TIME|DURATION|START", parameter.metavar or "") is not None


def is_refused(command: Any, arguments: list[str]) -> bool:
    """Whether the parser refuses the arguments. That is much quicker than to run the command."""
    try:
        command.make_context("jetspark", list(arguments))
    except typer.TyperException as error:
        error.format_message().encode("utf-8", "surrogateescape")
        return True
    return False


def assert_clear(cli: Cli, *arguments: str) -> None:
    """A command succeeds, or it fails with one line that is not about a bug."""
    result = cli.run(*arguments)
    if result.code:
        assert result.code in (1, 2, 3, 4, 5), result
        assert result.err.startswith("jetspark: "), result
        assert result.err.splitlines()[-1].startswith("jetspark: "), result
    assert "bug in jetspark" not in result.err, (arguments, result)
    assert "Traceback" not in result.err, (arguments, result)
    (result.out + result.err).encode()  # No surrogate reaches the terminal.


@pytest.mark.parametrize("name", LEAVES)
def test_a_command_ends_clearly_whatever_an_argument_is(
    name: str, cli: Cli, shared_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = LEAVES[name]
    words = name.split()
    for parameter in own_parameters(command):
        for value in ODD:
            arguments = with_value(name, command, parameter, value, shared_server)
            if not is_refused(command, arguments) and (value == ODD[0] or is_parsed_later(parameter)):
                assert_clear(cli, *SOON, *words, *arguments)


@pytest.mark.parametrize("option", [option for option, (_, default) in COMMON.items() if default is None])
def test_the_common_options_end_clearly_too(option: str, cli: Cli) -> None:
    for value in ODD:
        needs = ["--user", "me"] if option == "password_file" else []
        assert_clear(cli, *SOON, "stream", "ls", *needs, f"--{option.replace('_', '-')}", value)


@pytest.mark.parametrize(
    "variable",
    [
        *("NATS_URL", "NATS_USER", "NATS_TOKEN", "NATS_CREDS", "NATS_NKEY", "NATS_CA", "NATS_CERT"),
        *("NATS_CONTEXT", "NATS_TIMEOUT", "NATS_JS_DOMAIN"),
    ],
)
def test_variables_end_clearly_too(variable: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ODD:
        monkeypatch.setenv(variable, value)
        assert_clear(cli, *(() if variable == "NATS_TIMEOUT" else SOON), "stream", "ls")


@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        b'{"url": "\\ud800"}',
        b'{"url": "nats://me:hunter2@[::1"}',
        b'{"creds": "a\\u0000b"}',
        b'{"ca": "a\\u0000b"}',
        b'{"url": 7, "password": "hunter2"}',
        b'{"description":' * 100_000,
        b'{"url": ' + b"[" * 100_000,
        b'{"jetstream_domain": "a\\u0000"}',
        b'{"inbox_prefix": "\\u0000"}',
    ],
)
def test_a_bad_context_ends_clearly_and_shows_no_password(
    content: bytes, cli: Cli, no_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if b"url" in content:
        monkeypatch.delenv("NATS_URL")
    path = no_settings / "nats" / "context" / "bad.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    error = cli.fails("stream", "ls", "--context", "bad", code=2)
    assert "hunter2" not in error


@for_each(
    "text",
    [
        "name = " + "[" * 100_000,
        "name = " + "9" * 5000,
        "name = 'x'\n" + "[a" + ".a" * 5000 + "]\n",
        "\0",
    ],
)
def test_a_bad_pipeline_file_ends_clearly(text: str, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(text)
    assert "pipeline.toml" in cli.fails("pipeline", "check", path, code=2)


PIPELINE = """
name = "x"
checkpoint = {checkpoint}
[source]
stream = "LOGS"
{source}
[parse]
format = "raw"
[sink]
format = "parquet"
path = {path}
[dead_letters]
drop = true
{more}
"""


@for_each("bad", ["a\0b", "~nobody-here/x", "x" * 5000])
@for_each("key", ["checkpoint", "path", "credentials_file", "inbox_prefix", "log"])
def test_a_bad_path_in_a_pipeline_file_ends_clearly(key: str, bad: str, cli: Cli, tmp_path: Path) -> None:
    values = {"checkpoint": '"c"', "path": '"p"', "source": "", "more": ""}
    quoted = json.dumps(bad)
    if key in values:
        values[key] = quoted
    elif key == "log":
        values["more"] = f"[spark]\nlog = {quoted}"
    else:
        values["source"] = f"{key} = {quoted}"
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE.format(**values))
    assert_clear(cli, "pipeline", "check", str(path))
    if "\0" in bad:
        cli.fails("pipeline", "check", path, code=2)


def test_numbers_and_durations_have_a_largest_value() -> None:
    for parse, largest, larger in (
        (units.duration, "292y", "293y"),
        (units.duration, "0.5y", "999999999y"),
        (units.size, "8388607T", "8388608T"),
        (units.size, "1", "9" * 400),
        (units.count, "9223372036854775807", "9223372036854775808"),
        (units.count, "0" * 50 + "7", "9" * 5000),
    ):
        parse(largest)
        with pytest.raises(ValueError, match=r"is too l(ong|arge); the l(ongest|argest)"):
            parse(larger)


def test_a_start_that_is_no_position_is_refused() -> None:
    for text in ("9" * 5000, "999999999y", "0001-01-01T00:00+23:59"):
        with pytest.raises(Exception, match="is not a start position"):
            start.parse_start(text)
