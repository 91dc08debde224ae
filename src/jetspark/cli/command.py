"""What all commands share: `@command` and `Run`.

`@command(app, "ls")` registers a function as a command. Its first parameter is the `Run`; the others are
its own options. The options of `settings.COMMON` are added. They are accepted before the command, too; those
after it take precedence. Ctrl-C and SIGTERM cancel a coroutine function, so that its `finally` blocks run.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import typer

from jetspark.cli.args.table import Options, as_parameters, flags_of, name_flags, take_options
from jetspark.cli.settings import COMMON, Settings
from jetspark.cli.ui.failure import CONNECT, Exit, Failure
from jetspark.cli.ui.output import Output
from jetspark.cli.ui.signals import cancelled_by_sigterm
from jetspark.cli.ui.streams import forget_stdout
from jetspark.errors import AuthorizationError, ConnectionClosed, Error, Timeout, TLSError, UsageError

if TYPE_CHECKING:
    from jetspark import Connection, JetStream

__all__ = ["Run", "command", "group", "single"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Run:
    """One run of a command: its settings, its output, and its connection."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.out = Output(json=settings.json)

    @asynccontextmanager
    async def jetstream(self, *, wait: bool = False) -> AsyncIterator[JetStream]:
        """JetStream of the server in the settings; `js.connection` is the connection. Raises `Failure`.

        With `wait`, a server that cannot be reached is tried again, without limit.
        """
        import jetspark  # noqa: PLC0415 - loaded when it is used

        out = self.out
        options = self.settings.connect_options(out.ask_secret if out.interactive else None)
        servers = options.pop("servers")
        with ExitStack() as stack:
            if self.settings.trace:
                from jetspark.cli.ui.trace import show_protocol  # noqa: PLC0415

                stack.enter_context(show_protocol())
            try:
                nc = await jetspark.connect(
                    servers,
                    name="jetspark-cli",
                    on_disconnected=lambda error: out.warn(f"connection lost, reconnecting: {error}"),
                    on_reconnected=lambda: out.warn("reconnected"),
                    on_slow_consumer=lambda error: out.warn(str(error)),
                    retry_on_failed_connect=wait,
                    **options,
                )
            except (AuthorizationError, UsageError, TLSError):
                raise
            except Error as error:
                raise Failure(str(error.args[0]), CONNECT, Exit.UNREACHABLE) from error
            try:
                if not nc.connected:
                    out.warn(f"waiting for the server: {nc.last_error}")
                    await _until_connected(nc)
                yield nc.jetstream(**self.settings.jetstream_options())
            finally:
                # Ordered consumers that were just closed are deleted in the next turn of the loop.
                await asyncio.sleep(0)
                await nc.close()


async def _until_connected(nc: Connection) -> None:
    """Wait for the first connect. Raises the error that ended the connection."""
    while not nc.connected:
        try:
            await nc.wait_connected()
        except ConnectionClosed:
            raise nc.last_error or ConnectionClosed("the connection is closed") from None
        except Timeout:
            continue


def group(help: str) -> typer.Typer:
    """A group of commands."""
    app = typer.Typer(help=help, no_args_is_help=True, add_completion=False, rich_markup_mode="rich")
    app.callback()(_nothing)  # Without a callback, typer turns a group of one command into a command.
    return app


def single() -> typer.Typer:
    """A command that is not in a group."""
    return typer.Typer(add_completion=False, rich_markup_mode="rich")


def _nothing() -> None:
    """A callback that does nothing."""


def command(
    app: typer.Typer, name: str, *, examples: str, options: Options | None = None
) -> Callable[[_Function], _Function]:
    """Register a function as the command `name`.

    `examples` are shell lines, shown below the help. The values of `options` are passed to the function as
    one dict, `given`, with None for those that were not given. Errors of the library name the flags of the
    command.
    """

    def register(function: _Function) -> _Function:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in list(inspect.signature(function).parameters.values())[1:]
            if parameter.name != "given"
        ]

        flags = {**flags_of([*own, *as_parameters(COMMON)]), **flags_of(as_parameters(options or {}))}

        def wrapper(**arguments: Any) -> None:
            ctx = arguments.pop("ctx")
            settings = Settings(**{option: arguments.pop(option) for option in COMMON})
            before = ctx.find_object(Settings) or Settings()
            if options is not None:
                arguments["given"] = {option: arguments.pop(option) for option in options}
            try:
                _execute(function, Run(settings.over(before)), arguments)
            except UsageError as error:
                error.args = (name_flags(str(error.args[0]), flags), *error.args[1:])
                error.hint = error.hint and name_flags(error.hint, flags)
                raise

        wrapper.__doc__ = function.__doc__
        take_options(wrapper, [*own, *as_parameters(options or {}), *as_parameters(COMMON)])
        lines = "\n\n".join(f"  [cyan]{_literal(line)}[/cyan]" for line in examples.strip().splitlines())
        app.command(name, epilog=f"[bold]Examples[/bold]\n\n{lines}")(wrapper)
        return function

    return register


def _literal(line: str) -> str:
    return line.strip().replace("[", "\\[")


def _execute(function: Callable[..., Any], run: Run, arguments: dict[str, Any]) -> None:
    try:
        with _without_log():
            if inspect.iscoroutinefunction(function):
                asyncio.run(cancelled_by_sigterm(function(run, **arguments)))
            else:
                function(run, **arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()
        raise typer.Exit(Exit.BROKEN_PIPE) from None
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None


@contextmanager
def _without_log() -> Iterator[None]:
    """Silence the log of the library: commands report its errors themselves."""
    logger = logging.getLogger("jetspark")
    was, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was
