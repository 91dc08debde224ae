"""What every command has: help with examples, JSON, a line for each way to fail."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
import typer

from jetspark.cli import main as program
from jetspark.cli.command import Run, command, single
from jetspark.cli.main import TREE, load
from jetspark.server import Server
from tests.cli.support import Cli
from tests.support.cases import Cases, for_each
from tests.support.golden import Golden

# Every command with arguments that are right, but for the stream NOPE, which is not there.
COMMANDS: dict[str, list[str]] = {
    "stream add": ["NOPE", "--subjects", "nope"],
    "stream ls": [],
    "stream info": ["NOPE"],
    "stream get": ["NOPE", "1"],
    "stream purge": ["NOPE", "--force"],
    "stream edit": ["NOPE", "--max-age", "1h", "--force"],
    "stream rm": ["NOPE", "--force"],
    "stream backup": ["NOPE", "nope"],
    "stream restore": ["nope"],
    "stream copy": ["NOPE", "NEW", "--subjects", "new"],
    "stream subjects": ["NOPE"],
    "stream gaps": ["NOPE"],
    "stream rmm": ["NOPE", "1", "--force"],
    "consumer add": ["NOPE", "c"],
    "consumer ls": ["NOPE"],
    "consumer info": ["NOPE", "c"],
    "consumer next": ["NOPE", "c"],
    "consumer pause": ["NOPE", "c", "1m"],
    "consumer resume": ["NOPE", "c"],
    "consumer rm": ["NOPE", "c", "--force"],
    "consumer edit": ["NOPE", "c", "--wait", "1m", "--force"],
    "consumer reset": ["NOPE", "c", "--force"],
    "consumer report": ["NOPE"],
    "req": ["nope", "body", "--wait", "1s"],
    "reply": ["nope", "--echo", "--wait", "100ms"],
    "trace": ["nope"],
    "kv add": ["nope"],
    "kv edit": ["nope", "--history", "2"],
    "kv ls": ["nope"],
    "kv info": ["nope"],
    "kv put": ["nope", "key", "value"],
    "kv create": ["nope", "key", "value"],
    "kv update": ["nope", "key", "value", "--revision", "1"],
    "kv get": ["nope", "key"],
    "kv revert": ["nope", "key", "1"],
    "kv del": ["nope", "key"],
    "kv purge": ["nope", "key"],
    "kv history": ["nope", "key"],
    "kv watch": ["nope", "--wait", "1s"],
    "kv compact": ["nope"],
    "object add": ["nope"],
    "object put": ["nope", "README.md"],
    "object get": ["nope", "nope.bin"],
    "object ls": ["nope"],
    "object info": ["nope"],
    "object del": ["nope", "object", "--force"],
    "object compact": ["nope"],
    "object seal": ["nope", "--force"],
    "object watch": ["nope", "--wait", "1s"],
    "pub": ["nope", "body"],
    "sub": ["--stream", "NOPE", "--wait", "1s"],
    "dead-letters capture": ["--name", "NOPE"],
    "dead-letters ls": ["NOPE", "c"],
    "dead-letters show": ["NOPE", "c", "1"],
    "dead-letters replay": ["NOPE", "c", "1"],
    "dead-letters purge": ["NOPE", "c", "--force"],
    "export": ["NOPE"],
    "ship": ["README.md", "--once"],
    "consume-logs": ["NOPE", "out", "--once"],
    "pause": ["--consumers", "NOPE/c"],
    "resume": ["--consumers", "NOPE/*"],
    "console": ["--port", "0"],
    "events": ["--wait", "10ms"],
    "bench pub": ["--msgs", "10"],
    "bench fetch": ["--msgs", "10"],
    "bench latency": ["--msgs", "10"],
    "pipeline check": ["nope.toml"],
    "pipeline explain": ["nope.toml"],
    "pipeline compact": ["nope.toml"],
    "pipeline run": ["nope.toml"],
    "pipeline try": ["nope.toml"],
    "demo": [],
    "server run": ["--port", "0"],
    "server check": [],
    "doctor": [],
}
# These need no server, or look at it as a doctor does, or read a file first.
ALONE = (
    *("server run", "server check", "doctor", "demo", "stream restore"),
    *("pipeline check", "pipeline explain", "pipeline run", "pipeline compact", "pipeline try"),
)
# These are of Core NATS, and ask JetStream nothing.
CORE = ("req", "reply", "trace")
# These create a stream, or are about none.
WITHOUT_A_STREAM = (
    *(
        "stream add",
        "stream ls",
        "kv add",
        "object add",
        "console",
        "events",
        "bench pub",
        "bench fetch",
        "bench latency",
    ),
    *ALONE,
    *CORE,
)


def every_command() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in TREE:
        command = load(entry.name)
        below = getattr(command, "commands", None)
        found |= (
            {f"{entry.name} {name}": each for name, each in below.items()} if below else {entry.name: command}
        )
    return found


def test_no_command_is_forgotten_here() -> None:
    assert set(every_command()) == set(COMMANDS)


PANEL = re.compile(r"^╭─ (\w[\w ]*) ─.*?^╰─*╯\n", re.MULTILINE | re.DOTALL)


def test_every_command_has_help_with_examples_and_the_common_options(
    cli: Cli, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", None)
    monkeypatch.setattr("typer.rich_utils.FORCE_TERMINAL", False)
    root = cli("--help").out
    common = [panel[0] for panel in PANEL.finditer(root) if panel[1] in ("General", "Connection")]
    groups = {name.split()[0] for name in COMMANDS if " " in name}
    texts = [root]
    cases = Cases()
    for name in sorted({*COMMANDS, *groups}):
        with cases.case(name):
            text = cli(*name.split(), "--help").out
            assert f"Usage: jetspark {name}" in text
            if name in COMMANDS:
                assert f"jetspark {name}" in text.split("Examples")[1]
                for panel in common:
                    assert panel in text
                    text = text.replace(panel, "")  # Once, with the root, is enough to read.
            texts.append(text)
    cases.end()
    golden("cli-help", f"{'=' * 100}\n".join(texts))


def test_help_at_the_root_names_every_command(cli: Cli) -> None:
    for arguments in (["--help"], ["-h"]):
        text = cli(*arguments).out
        assert all(f" {entry.name} " in text for entry in TREE)
    assert cli("--version").out.startswith("jetspark 0.")
    assert "Usage: jetspark" in cli(code=2).out
    assert "Usage: jetspark stream" in cli("stream", code=2).out


@for_each("command", sorted(set(COMMANDS) - set(ALONE)))
def test_without_a_server_every_command_says_so_on_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    assert cli.fails(*command.split(), *COMMANDS[command], code=3) == (
        "jetspark: cannot connect to 127.0.0.1:1: Connection refused. "
        "Is nats-server running there? Set its address with --server, NATS_URL or --context\n"
    )


@for_each("command", sorted(COMMANDS))
def test_an_unknown_option_is_refused_on_one_line(cli: Cli, command: str) -> None:
    line = cli.fails(*command.split(), *COMMANDS[command], "--nonsense", code=2)
    assert line.startswith("jetspark: No such option: --nonsense")
    assert line.endswith(f". See `jetspark {command} --help`\n")


@for_each(
    "command",
    sorted(name for name in COMMANDS if name not in WITHOUT_A_STREAM and "dead-letters" not in name),
)
def test_without_the_stream_every_command_says_so_on_one_line(cli: Cli, command: str) -> None:
    line = cli.fails(*command.split(), *COMMANDS[command], code=4)
    assert "not found (10059)" in line or "no stream stores" in line


@for_each("command", sorted(set(COMMANDS) - {"pub", *ALONE, *CORE}))
def test_without_permission_every_command_says_so_on_one_line(guest: Cli, command: str) -> None:
    line = guest.fails(*command.split(), *COMMANDS[command], code=5)
    assert "Permissions Violation" in line
    assert "Add this subject to the permissions of the user, or use another --context" in line


def test_a_subject_without_permission_is_told(guest: Cli) -> None:
    for arguments in (
        ["pub", "closed.a", "x"],
        ["pub", "closed.a", "x", "--count", "3"],
        ["pub", "closed.a", "x", "--core"],
    ):
        assert 'Publish to "closed.a"' in guest.fails(*arguments, code=5)
    assert 'Subscription to "$JS.x"' in guest.fails("sub", "$JS.x", "--wait", "10s", code=5)


def test_wrong_credentials_are_told(guest: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_PASSWORD", "wrong")
    line = guest.fails("stream", "ls", code=5)
    assert "the server refused the credentials" in line
    assert "wrong" not in line


def test_a_server_without_jetstream_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(jetstream=False) as plain:
        monkeypatch.setenv("NATS_URL", plain.url)
        assert "Start nats-server with -js" in cli.fails("stream", "ls", code=1)


def test_a_server_that_does_not_answer_is_told(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", server.url)
    server.pause()
    try:
        assert "did not answer within 0.3 s" in cli.fails("stream", "ls", "--timeout", "300ms", code=3)
    finally:
        server.resume()


def test_a_command_that_is_mistyped_gets_a_proposal(cli: Cli) -> None:
    assert "Did you mean 'export'? See `jetspark --help`" in cli.fails("exprot", "ls", code=2)


def test_a_bug_is_one_line_too(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(name: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(program, "load", broken)
    assert program.main(["doctor"]) == 1
    line = capsys.readouterr().err
    assert line.startswith("jetspark: ZeroDivisionError: oh. This is a bug in jetspark. JETSPARK_TRACEBACK=1")
    monkeypatch.setenv("JETSPARK_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        program.main(["doctor"])


def test_help_loads_nothing_that_only_commands_need() -> None:
    program = (
        "import json, sys\n"
        "from jetspark.cli.main import main\n"
        "main(['--help'])\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    loaded = set(json.loads(output.stdout.splitlines()[-1]))
    heavy = {"asyncio", "msgspec", "nkeys", "pyarrow", "pyspark", "jetspark.client", "jetspark.core"}
    assert loaded & heavy == set()
    assert not {
        name for name in loaded if name.startswith("jetspark.cli.") and name.endswith((".stream", ".pub"))
    }


def test_without_its_packages_the_program_says_what_to_install() -> None:
    program = "import sys; sys.modules['typer'] = None; import jetspark.cli.main"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 1
    assert result.stderr == "jetspark: the command line needs typer and rich: pip install 'jetspark[cli]'\n"


def test_a_command_is_a_module_and_one_line_in_the_tree(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("jetspark.cli.commands.greet")
    vars(module)["app"] = app = single()

    @command(app, "greet", examples="jetspark greet")
    def greet(run: Run, *, loud: bool = False) -> None:
        """Say hello."""
        run.out.text("HELLO" if loud else "hello")

    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(program, "TREE", (*TREE, program.Entry("greet", "Say hello.", "Manage")))
    assert cli("greet", "--loud").out == "HELLO\n"
    assert "greet" in cli("--help").out


def test_typer_groups_are_what_typer_makes() -> None:
    assert all(
        isinstance(load(entry.name), typer.core.TyperCommand | typer.core.TyperGroup) for entry in TREE
    )
