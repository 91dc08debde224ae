"""`jetspark server`: the embedded server, in the foreground."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jetspark import server as embedded
from jetspark.cli.args.parameters import checked, option
from jetspark.cli.args.units import size
from jetspark.cli.command import Run, command, group
from jetspark.cli.ui.failure import Exit, Failure
from jetspark.errors import ServerStartError

app = group("A real nats-server that starts and stops with the command.")

_LOOK: Final = 0.2


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
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port on 127.0.0.1; 0 is a free one.")
    ] = 4222,
    store_dir: Annotated[
        Path | None,
        option(
            "--store-dir",
            metavar="DIR",
            help="Where JetStream stores, and keeps it. Without, it goes at the end.",
        ),
    ] = None,
    name: Annotated[str | None, option("--name", metavar="NAME", help="Name of the server.")] = None,
    domain: Annotated[str | None, option("--domain", metavar="NAME", help="JetStream domain.")] = None,
    jetstream: Annotated[bool, typer.Option("--jetstream/--no-jetstream", help="With JetStream.")] = True,
    monitor: Annotated[bool, typer.Option("--monitor", help="Open the HTTP monitoring port, too.")] = False,
    max_payload: Annotated[
        int | None,
        option("--max-payload", metavar="SIZE", parser=checked(size), help="Largest message (1MB)."),
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Show the server's log, on stderr.")] = False,
) -> None:
    """Run a server in the foreground, until Ctrl-C or SIGTERM, which end it with exit code 0.

    It listens on 127.0.0.1 only, and anybody on this machine may connect.
    """
    options: dict[str, Any] = {
        "port": port,
        "store_dir": store_dir,
        "name": name,
        "domain": domain,
        "jetstream": jetstream,
        "monitor": monitor,
        "max_payload": max_payload,
    }
    server = embedded.Server(**options)
    try:
        async with server:
            _show(run, server, kept=store_dir is not None)
            await _watch(server, log=log)
    except ServerStartError as error:
        raise Failure(_reason(error, port), _way_out(error), Exit.FAILED) from error
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
        store = server.store_dir if kept else f"{server.store_dir} (temporary: it goes with the server)"
    run.out.details(
        (
            ("URL", server.url),
            ("Name", server.name),
            ("Store", store or "none: without JetStream"),
            ("Monitoring", server.monitor_url),
            ("Process", server.pid),
        )
    )
    run.out.note("Ctrl-C ends it")


async def _watch(server: embedded.Server, *, log: bool) -> None:
    """Return never; raise `Failure` when the server ends by itself."""
    shown = 0
    while server.running:
        if log:
            text = server.log()
            sys.stderr.write(text[shown:])
            shown = len(text)
        await asyncio.sleep(_LOOK)
    lines = server.log().strip().splitlines()
    raise Failure(f"the server ended: {lines[-1] if lines else 'it said nothing'}")


def _reason(error: ServerStartError, port: int) -> str:
    if "address already in use" in str(error):
        return f"port {port} is in use"
    lines = [line for line in str(error).splitlines() if "[FTL]" in line or "[ERR]" in line]
    return lines[-1].strip() if lines else str(error)


def _way_out(error: ServerStartError) -> str | None:
    if "address already in use" in str(error):
        return "Take another with --port, 0 for any that is free"
    return f"It runs {os.environ['JETSPARK_NATS_SERVER']}" if os.environ.get("JETSPARK_NATS_SERVER") else None
