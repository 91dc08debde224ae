"""Commands: what all of them have in common.

`@command(app, "ls")` registers a function as a command. Its first parameter is the `Run`; the others are its
own options; those of `settings.COMMON` are added to them. They can also stand before the command, where those
behind it win. A coroutine function runs in an event loop that Ctrl-C and SIGTERM cancel, so that `finally`
blocks and context managers do their work.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import typer

from jetspark.cli.args.signatures import Options, as_parameters, take_options
from jetspark.cli.settings import COMMON, Settings
from jetspark.cli.ui.failure import CONNECT, Exit, Failure
from jetspark.cli.ui.output import Output
from jetspark.errors import AuthorizationError, Error, TLSError, UsageError

if TYPE_CHECKING:
    from jetspark import Connection, JetStream

__all__ = ["Run", "command", "group", "single"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Run:
    """One run of a command: how to connect, and the way out."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.out = Output(json=settings.json)

    @asynccontextmanager
    async def connection(self, **options: Any) -> AsyncIterator[Connection]:
        """A connection to the server that flags, environment or context name. Raises `Failure`."""
        import jetspark  # noqa: PLC0415 - loaded when it is used

        out = self.out
        ask = out.ask_secret if out.interactive else None
        given = {
            "name": "jetspark-cli",
            "on_disconnected": lambda error: out.warn(f"connection lost, reconnecting: {error}"),
            "on_reconnected": lambda: out.warn("connected again"),
            "on_slow_consumer": lambda error: out.warn(str(error)),
            **self.settings.connect_options(ask),
            **options,
        }
        servers = given.pop("servers")
        with ExitStack() as stack:
            if self.settings.trace:
                from jetspark.cli.ui.trace import protocol_shown  # noqa: PLC0415

                stack.enter_context(protocol_shown())
            try:
                nc = await jetspark.connect(servers, **given)
            except (AuthorizationError, UsageError, TLSError):
                raise
            except Error as error:
                raise Failure(str(error.args[0]), CONNECT, Exit.UNREACHABLE) from error
            try:
                yield nc
            finally:
                # Consumers that were let go of in this turn are deleted in the next one, if there is one.
                await asyncio.sleep(0)
                await nc.close()

    @asynccontextmanager
    async def jetstream(self) -> AsyncIterator[JetStream]:
        """JetStream through such a connection."""
        async with self.connection() as nc:
            yield nc.jetstream(**self.settings.jetstream_options())


def group(help: str) -> typer.Typer:
    """A group of commands."""
    app = typer.Typer(help=help, no_args_is_help=True, add_completion=False, rich_markup_mode="rich")
    app.callback()(_nothing)  # With it, a group of one command stays a group.
    return app


def single() -> typer.Typer:
    """The place of one command that has no others beside it."""
    return typer.Typer(add_completion=False, rich_markup_mode="rich")


def _nothing() -> None:
    """Nothing is done before the command."""


def command(
    app: typer.Typer, name: str, *, examples: str, options: Options | None = None
) -> Callable[[_Function], _Function]:
    """Register a function as the command `name`.

    `examples` are lines of shell, shown below the help. What `options` adds is handed to the function as one
    dict, `given`, in which those that were not given are None.
    """

    def register(function: _Function) -> _Function:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in list(inspect.signature(function).parameters.values())[1:]
            if parameter.name != "given"
        ]

        def wrapper(**arguments: Any) -> None:
            ctx = arguments.pop("ctx")
            settings = Settings(**{option: arguments.pop(option) for option in COMMON})
            before = ctx.find_object(Settings) or Settings()
            if options is not None:
                arguments["given"] = {option: arguments.pop(option) for option in options}
            _execute(function, Run(settings.over(before)), arguments)

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
                asyncio.run(_cancelled_by_sigterm(function(run, **arguments)))
            else:
                function(run, **arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        raise typer.Exit(Exit.BROKEN_PIPE) from None
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None


@contextmanager
def _without_log() -> Iterator[None]:
    """What the library logs is raised, or said here in other words."""
    logger = logging.getLogger("jetspark")
    was, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was


async def _cancelled_by_sigterm(work: Coroutine[Any, Any, None]) -> None:
    """Let SIGTERM end the work as Ctrl-C does."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    watched = threading.current_thread() is threading.main_thread()
    if watched:
        loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        await work
    except asyncio.CancelledError:
        if terminated:
            raise typer.Exit(Exit.TERMINATED) from None
        raise
    finally:
        if watched:
            loop.remove_signal_handler(signal.SIGTERM)


def _forget_stdout() -> None:
    """Nobody reads: let the interpreter's own flush at the end go nowhere, instead of complaining."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
