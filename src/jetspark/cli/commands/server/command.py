"""`jetspark server`: a nats-server in the foreground."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from jetspark import server as embedded
from jetspark.cli.args.parameters import option, size_option
from jetspark.cli.command import Run, command, group
from jetspark.cli.ui.escape import escape_line
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.errors import ServerStartError

app = group("Run a nats-server that stops with the command, or check one.")

#: Seconds between two looks at the server and its log.
_INTERVAL: Final = 0.2


@command(
    app,
    "run",
    examples="""
    jetspark server run
    jetspark server run --port 0 --store-dir ./data --log
    jetspark server run --json | jq -r .url
    """,
)
async def run_server(
    run: Run,
    *,
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port on 127.0.0.1; 0 is any free port.")
    ] = 4222,
    store_dir: Annotated[
        Path | None,
        option(
            "--store-dir",
            metavar="DIR",
            help="Directory of JetStream; by default a temporary one, deleted at the end.",
        ),
    ] = None,
    name: Annotated[str | None, option("--name", metavar="NAME", help="Name of the server.")] = None,
    domain: Annotated[str | None, option("--domain", metavar="NAME", help="JetStream domain.")] = None,
    jetstream: Annotated[bool, typer.Option("--jetstream/--no-jetstream", help="Enable JetStream.")] = True,
    monitor: Annotated[bool, typer.Option("--monitor", help="Open an HTTP monitoring port.")] = False,
    max_payload: Annotated[
        int | None, size_option("--max-payload", help="Maximum size of a message (1MB).")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Print the log of the server to stderr.")] = False,
) -> None:
    """Run a server in the foreground. Ctrl-C and SIGTERM stop it with exit code 0.

    It listens on 127.0.0.1 only; every user of this machine can connect.
    """
    server = embedded.Server(
        port=port,
        store_dir=store_dir,
        name=name,
        domain=domain,
        jetstream=jetstream,
        monitor=monitor,
        max_payload=max_payload,
    )
    try:
        async with server:
            _show(run, server, kept=store_dir is not None)
            await _watch(server, log=log)
    except ServerStartError as error:
        raise Failure(_reason(error, port), _hint(error), Exit.FAILED) from error
    except asyncio.CancelledError:
        run.out.note("The server was stopped")


def _show(run: Run, server: embedded.Server, *, kept: bool) -> None:
    if run.out.json:
        run.out.record(
            {
                "url": server.url,
                "name": server.name,
                "pid": server.pid,
                "store_dir": server.store_dir,
                "temporary": not kept,
                "monitor_url": server.monitor_url,
            }
        )
        return
    store = None
    if server.store_dir is not None:
        store = server.store_dir if kept else f"{server.store_dir} (temporary, deleted at the end)"
    run.out.details(
        (
            ("URL", server.url),
            ("Name", server.name),
            ("Store", store or "none (no JetStream)"),
            ("Monitoring", server.monitor_url),
            ("Process", server.pid),
        )
    )
    run.out.note("Stop it with Ctrl-C")


async def _watch(server: embedded.Server, *, log: bool) -> None:
    """Never return; raise `Failure` if the server ends."""
    shown = 0
    while server.running:
        if log:
            for line in server.log()[shown:].split("\n")[:-1]:
                sys.stderr.write(f"{escape_line(line)}\n")
                shown += len(line) + 1
        await asyncio.sleep(_INTERVAL)
    lines = server.log().strip().splitlines()
    raise Failure(f"the server ended: {lines[-1] if lines else 'its log is empty'}")


def _reason(error: ServerStartError, port: int) -> str:
    if "address already in use" in str(error):
        return f"port {port} is in use"
    lines = [line for line in str(error).splitlines() if "[FTL]" in line or "[ERR]" in line]
    return lines[-1].strip() if lines else str(error)


def _hint(error: ServerStartError) -> str | None:
    if "address already in use" in str(error):
        return "Use another --port; 0 is any free port"
    binary = os.environ.get("JETSPARK_NATS_SERVER")
    return f"The binary is {binary}" if binary else None
