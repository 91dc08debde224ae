"""The entry point: the list of commands, and how every run ends.

A command is imported when it runs: `jetspark --help` and completion import none. To add a command, write
`commands/<name>.py` with an `app`, a `typer.Typer`, and add it to `TREE`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from jetspark._version import __version__
from jetspark.cli.args.table import as_parameters, take_options
from jetspark.cli.settings import COMMON, Settings
from jetspark.cli.ui import log
from jetspark.cli.ui.failure import Exit, Failure, describe
from jetspark.cli.ui.streams import STDOUT, forget_stdout, prepare_streams

__all__ = ["TREE", "Entry", "main"]


class Entry(NamedTuple):
    """A command in the list."""

    #: Also the name of its module in `jetspark.cli.commands`, with `_` for `-`.
    name: str
    help: str
    #: The heading in `jetspark --help`.
    panel: str


TREE: Final = (
    Entry(
        "stream", "Manage streams: add, ls, info, get, purge, edit, rm, backup, restore and more.", "Manage"
    ),
    Entry(
        "consumer", "Manage consumers: add, ls, info, next, edit, pause, resume, reset, report, rm.", "Manage"
    ),
    Entry("kv", "Key-value buckets: add, put, get, watch, ls and more.", "Manage"),
    Entry("object", "Object stores: add, put, get, ls, watch and more.", "Manage"),
    Entry("pub", "Publish messages.", "Messages"),
    Entry("sub", "Read messages from a subject or a stream.", "Messages"),
    Entry("req", "Send a request and print the answers.", "Messages"),
    Entry("reply", "Answer requests, for tests.", "Messages"),
    Entry("trace", "Show the path of a message through the servers.", "Messages"),
    Entry("dead-letters", "Messages that consumers gave up: capture, ls, show, replay, purge.", "Messages"),
    Entry("export", "Write a stream to a file, as JSON lines or Parquet.", "Messages"),
    Entry("ship", "Follow log files or stdin, and publish their lines.", "Logs"),
    Entry("consume-logs", "Write the log lines of each host to a file.", "Logs"),
    Entry("pause", "Pause shippers and consumers, or show what is paused.", "Logs"),
    Entry("resume", "Resume paused shippers and consumers.", "Logs"),
    Entry("pipeline", "The Spark job for logs: check, try, explain, run, compact.", "Logs"),
    Entry("demo", "Run the whole log pipeline for about a minute.", "Logs"),
    Entry("console", "Show everything in a browser, live.", "Operate"),
    Entry("events", "Watch the advisories of JetStream.", "Operate"),
    Entry("server", "Run a nats-server, or check one for a monitoring system.", "Operate"),
    Entry("bench", "Benchmark a server: pub, fetch, latency.", "Operate"),
    Entry("doctor", "Check the server and this machine for problems.", "Operate"),
)

_EPILOG: Final = (
    "Connects to the server in NATS_URL, or in the selected context of the nats CLI. "
    "`jetspark COMMAND --help` shows options and examples."
)


class _Tree(TyperGroup):
    """Knows the commands by name and help, and imports the one that runs."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, stub, rest = super().resolve_command(ctx, args)
        known = any(entry.name == name for entry in TREE)
        return (name, load(str(name)) if known else stub, rest)


def load(name: str) -> Any:
    """Import a command."""
    module = importlib.import_module(f"jetspark.cli.commands.{name.replace('-', '_')}")
    loaded = typer.main.get_command(module.app)
    loaded.name = name
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
    for entry in TREE:
        root.add_command(TyperCommand(entry.name, help=entry.help, rich_help_panel=entry.panel))
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of the process, and return the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    prepare_streams()
    log.reset()
    if "--log-format=json" in given or ("--log-format", "json") in pairwise(given):
        log.use_json("jetspark")  # Also for wrong options; the command adds its name.
    try:
        code = _root().main(args=given, prog_name="jetspark", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else Exit.OK
    except (BrokenPipeError, SystemExit) as error:
        # Rich, which shows the help, exits by itself.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        forget_stdout()
        return Exit.BROKEN_PIPE
    except typer.Abort:
        return _end("nothing was changed", Exit.INTERRUPTED)
    except typer.TyperException as error:
        return _end_usage(error)
    except Exception as error:
        if isinstance(error, OSError) and error.filename == STDOUT:
            forget_stdout()
        if os.environ.get("JETSPARK_TRACEBACK") and not isinstance(error, Failure):
            raise
        return _end(*describe(error))


def _end_usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        return Exit.USAGE  # The help has been shown.
    ctx = getattr(error, "ctx", None)
    command = ctx.command_path if ctx is not None else "jetspark"
    message = error.format_message()
    return _end(*describe(Failure(message, f"See `{command} --help`", Exit.USAGE)))


def _end(line: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        forget_stdout()  # The error still goes to stderr.
    log.write("error", line, code=code)
    return code
