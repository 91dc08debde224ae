"""`jetspark console`: a web page that shows the server live."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from jetspark.cli.args.parameters import option
from jetspark.cli.command import Run, command, single
from jetspark.cli.long_running import LogFormat
from jetspark.cli.settings import read_secret
from jetspark.cli.ui.failure import Exit, Failure, require
from jetspark.console.options import DEFAULT_PORT, ConsoleOptions
from jetspark.core.paths import expanded

if TYPE_CHECKING:
    from jetspark.console.actions import Action

app = single()

_TOKEN: Final = "JETSPARK_CONSOLE_TOKEN"


@command(
    app,
    "console",
    examples="""
    jetspark console
    jetspark console --write
    jetspark console --address 0.0.0.0 --tls-cert console.pem --tls-key console.key --name nats.example.com
    """,
)
async def console(
    run: Run,
    *,
    port: Annotated[
        int,
        typer.Option("--port", metavar="NUMBER", min=0, max=65535, help="The port; 0 chooses a free one."),
    ] = DEFAULT_PORT,
    address: Annotated[
        str,
        typer.Option(
            "--address",
            metavar="ADDRESS",
            help="Address to listen on; any other than loopback needs a token.",
        ),
    ] = "127.0.0.1",
    write: Annotated[
        bool, typer.Option("--write", help="Allow actions: pause, resume, reset, replay, discard.")
    ] = False,
    name: Annotated[
        list[str] | None,
        option("--name", metavar="NAME", help="A host name under which browsers reach it; repeatable."),
    ] = None,
    console_token_file: Annotated[
        Path | None,
        option(
            "--console-token-file",
            metavar="FILE",
            help=f"File with the token for browsers, instead of a random one. [{_TOKEN}]",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, option("--tls-cert", metavar="FILE", help="Certificate of the console, for HTTPS.")
    ] = None,
    tls_key: Annotated[
        Path | None, option("--tls-key", metavar="FILE", help="Key of that certificate.")
    ] = None,
    log_format: LogFormat = None,
) -> None:
    """Show streams, consumers, dead letters, agents and jobs in a browser, live.

    The first line is the URL, with a token. The console listens on loopback and only reads, unless --write
    is set.
    """
    for module in ("nicegui", "prometheus_client"):
        require(module, "the console", "console")
    options = ConsoleOptions(
        address=address,
        port=port,
        write=write,
        token=_token(console_token_file),
        names=tuple(name or ()),
        tls_cert_file=tls_cert and _file(tls_cert, "--tls-cert"),
        tls_key_file=tls_key and _file(tls_key, "--tls-key"),
    )

    def report(action: Action) -> None:
        failed = f": {action.error}" if action.error else ""
        run.out.warn(f"{action.at:%Y-%m-%d %H:%M:%S} UTC, {action.who}: {action.what}{failed}")

    async with run.jetstream() as js:
        async for _ in js.stream_names():
            break
        from jetspark.console.app import Console  # noqa: PLC0415 - loads NiceGUI

        async with Console(js, options, report=report) as running:
            if run.out.json:
                run.out.record({"url": running.url, "write": write})
            else:
                run.out.text(running.url)
            if not options.is_local and not options.tls:
                run.out.warn(
                    "without TLS, anyone on the network path can read the token and the messages: give "
                    "--tls-cert and --tls-key, or listen on loopback and use a tunnel: "
                    f"ssh -L {running.port}:127.0.0.1:{running.port} HOST"
                )
            run.out.note("Ctrl-C ends it" if write else "Read-only; --write allows actions. Ctrl-C ends it")
            await running.wait()


def _token(file: Path | None) -> str | None:
    return read_secret(file, "--console-token-file") if file is not None else os.environ.get(_TOKEN) or None


def _file(path: Path, flag: str) -> Path:
    found = Path(expanded(path))
    if not found.is_file():
        raise Failure(f"{flag}: {path} is not a file", code=Exit.USAGE)
    return found
