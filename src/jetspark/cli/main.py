"""The program: the tree of commands, and how everything ends.

`TREE` is the whole tree. A module is imported when its command runs: `jetspark --help` and completion load
none of them. To hang in a command, write a module with `app`, a `typer.Typer`, and give it a row.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from jetspark._version import __version__
from jetspark.cli.args.signatures import as_parameters, take_options
from jetspark.cli.settings import COMMON, Settings
from jetspark.cli.ui.failure import Exit, Failure, describe
from jetspark.cli.ui.output import buffer_stdout

__all__ = ["TREE", "Row", "main"]


class Row(NamedTuple):
    """A command of the tree."""

    name: str
    #: Where it is: a module with `app`, which is the command itself or the group of those below it.
    module: str
    help: str
    panel: str


_MANAGE: Final = "Manage"
_MESSAGES: Final = "Messages"
_LOGS: Final = "Logs"
_OPERATE: Final = "Operate"

TREE: Final = (
    Row("stream", "jetspark.cli.commands.stream", "Streams: add, ls, info, get, purge, edit, rm.", _MANAGE),
    Row(
        "consumer",
        "jetspark.cli.commands.consumer",
        "Consumers: add, ls, info, next, pause, resume, rm.",
        _MANAGE,
    ),
    Row("pub", "jetspark.cli.commands.pub", "Publish messages.", _MESSAGES),
    Row("sub", "jetspark.cli.commands.sub", "Read messages of a subject or a stream.", _MESSAGES),
    Row(
        "dead-letters",
        "jetspark.cli.commands.dead_letters",
        "What consumers gave up: ls, show, replay.",
        _MESSAGES,
    ),
    Row(
        "export",
        "jetspark.cli.commands.export",
        "Write a stream to a file: JSON lines or Parquet.",
        _MESSAGES,
    ),
    Row("ship", "jetspark.cli.commands.ship", "Follow log files, or stdin, and ship their lines.", _LOGS),
    Row(
        "consume-logs",
        "jetspark.cli.commands.consume_logs",
        "Write the lines of each host to its file.",
        _LOGS,
    ),
    Row("pause", "jetspark.cli.commands.pause", "The stop button: shippers and consumers pause.", _LOGS),
    Row("resume", "jetspark.cli.commands.resume", "Let what was paused go on.", _LOGS),
    Row("pipeline", "jetspark.cli.commands.pipeline", "The Spark job for logs: check, explain, run.", _LOGS),
    Row("demo", "jetspark.cli.commands.demo", "The whole log pipeline, for about a minute.", _LOGS),
    Row("events", "jetspark.cli.commands.events", "Watch what JetStream tells about itself.", _OPERATE),
    Row("server", "jetspark.cli.commands.server", "Run a server.", _OPERATE),
    Row("bench", "jetspark.cli.commands.bench", "Measure a server: pub, fetch, latency.", _OPERATE),
    Row("doctor", "jetspark.cli.commands.doctor", "Find out what is wrong.", _OPERATE),
)

_EPILOG: Final = (
    "Connects to NATS_URL, or as the selected context of the nats CLI says. "
    "`jetspark COMMAND --help` shows the options and examples of a command."
)


class _Tree(TyperGroup):
    """The commands by name and help alone, until one of them runs."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, stub, rest = super().resolve_command(ctx, args)
        row = next((row for row in TREE if row.name == name), None)
        return (name, stub, rest) if row is None else (name, load(row), rest)


def load(row: Row) -> Any:
    """The command of a row, with its module."""
    loaded = typer.main.get_command(importlib.import_module(row.module).app)
    loaded.name = row.name
    return loaded


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"jetspark {__version__}\n")
        raise typer.Exit(Exit.OK)


_VERSION: Final = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
]


def _root() -> Any:
    app = typer.Typer(
        cls=_Tree, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich"
    )

    def before(**arguments: Any) -> None:
        """NATS JetStream from the command line."""
        ctx = arguments.pop("ctx")
        arguments.pop("version")
        ctx.obj = Settings(**arguments)

    take_options(before, [*as_parameters(COMMON), *as_parameters({"version": (_VERSION, False)})])
    app.callback(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})(before)
    root = typer.main.get_command(app)
    if TYPE_CHECKING:
        assert isinstance(root, TyperGroup)
    for row in TREE:
        root.add_command(TyperCommand(row.name, help=row.help, rich_help_panel=row.panel))
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of the process. Returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    buffer_stdout()
    try:
        code = _root().main(args=given, prog_name="jetspark", standalone_mode=False)
        return code if isinstance(code, int) else Exit.OK
    except typer.Abort:
        return _end("nothing was changed", Exit.INTERRUPTED)
    except typer.TyperException as error:
        return _end_usage(error)
    except Exception as error:
        if os.environ.get("JETSPARK_TRACEBACK") and not isinstance(error, Failure):
            raise
        return _end(*describe(error))


def _end_usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        return Exit.USAGE  # The help has been shown.
    ctx = getattr(error, "ctx", None)
    command = ctx.command_path if ctx is not None else "jetspark"
    message = error.format_message()
    return _end(*describe(Failure(message, f"`{command} --help` shows how", Exit.USAGE)))


def _end(line: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        pass  # Nobody reads it. What went wrong is still worth telling.
    sys.stderr.write(f"jetspark: {line}\n")
    return code
