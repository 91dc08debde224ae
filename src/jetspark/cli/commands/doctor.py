"""`jetspark doctor`: looks at everything that must be right, and says what to do about what is not."""

from __future__ import annotations

import typer

from jetspark.cli.command import Run, command, single
from jetspark.cli.commands.checks import Check, local_checks, server_checks
from jetspark.cli.ui.failure import Exit, Failure, describe
from jetspark.errors import Error

app = single()

_MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


@command(
    app,
    "doctor",
    examples="""
    jetspark doctor
    jetspark doctor --context production
    jetspark doctor --json | jq '.[] | select(.status != "ok")'
    """,
)
async def doctor(run: Run) -> None:
    """Check the server, JetStream, permissions, Java, Spark and the Python packages.

    Each with what to do. The exit code is 1 when something fails; warnings are about what only some need.
    """
    checks = [*await _of_the_server(run), *local_checks()]
    if run.out.json:
        run.out.value([check._asdict() for check in checks])
    else:
        for check in checks:
            run.out.text(f"{_MARKS[check.status]}  {check.name}: {check.detail}")
            if check.advice:
                run.out.text(f"      {check.advice}")
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(Exit.FAILED)


async def _of_the_server(run: Run) -> list[Check]:
    try:
        name, _ = run.settings.chosen_context()
        where = f"context {name}" if name else "no context"
        async with run.connection() as nc:
            js = nc.jetstream(**run.settings.jetstream_options())
            return [Check("Settings", "ok", where), *await server_checks(nc, js)]
    except (Failure, Error) as error:
        line, _ = describe(error)
        message, _, advice = line.partition(". ")
        return [Check("Server", "fail", message, advice or None)]
