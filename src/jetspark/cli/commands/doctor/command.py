"""`jetspark doctor`: checks the server and this machine, and prints what to do about each problem."""

from __future__ import annotations

import typer

from jetspark.cli.command import Run, command, single
from jetspark.cli.commands.doctor.checks import Check, local_checks, server_checks
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

    Each problem comes with advice. The exit code is 1 if a check fails; warnings are about optional parts.
    """
    checks = [*await _check_server(run), *local_checks()]
    if run.out.json:
        run.out.value([check._asdict() for check in checks])
    else:
        for check in checks:
            run.out.text(f"{_MARKS[check.status]}  {check.name}: {check.detail}")
            if check.advice:
                run.out.text(f"      {check.advice}")
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(Exit.FAILED)


async def _check_server(run: Run) -> list[Check]:
    try:
        name, _ = run.settings.chosen_context()
        where = f"context {name}" if name else "no context"
        async with run.jetstream() as js:
            return [Check("Settings", "ok", where), *await server_checks(js)]
    except (Failure, Error) as error:
        line, _ = describe(error)
        message, _, advice = line.partition(". ")
        return [Check("Server", "fail", message, advice or None)]
