"""Waits for a server process, by its log, its ports file and the INFO line that a client gets.

Deadlines are times of the monotonic clock. All functions raise ServerStartError, with the log where useful.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import time
from collections.abc import Mapping

from jetspark.errors import ServerStartError
from jetspark.server.config import HOST
from jetspark.server.files import ServerFiles
from jetspark.server.guard import Guarded

__all__ = ["POLL", "is_open", "last_lines", "read_info", "wait_for_log", "wait_for_ports"]

POLL = 0.002  # seconds; a start takes about ten milliseconds
_LOG_LINES = 20
_INFO_LIMIT = 1 << 20  # bytes; the server's own limit for a control line is far below


def last_lines(log: str) -> str:
    """Return the end of a log, for an error text."""
    return "\n".join(log.splitlines()[-_LOG_LINES:])


def wait_for_log(
    files: ServerFiles,
    process: Guarded,
    text: str,
    *,
    failure: str | None = None,
    start: int,
    deadline: float,
) -> None:
    """Wait for `text` in the log after byte `start`. Fails on `failure` there, or when the process ends."""
    while True:
        ended = not process.running  # read before the log, so that the log is complete
        log = files.read_log(start)
        if ended:
            reason = f"exited with {process.returncode}"
        elif text in log:
            return
        elif failure is not None and failure in log:
            reason = "refused its configuration"
        elif time.monotonic() > deadline:
            reason = f"did not log {text!r} in time"
        else:
            time.sleep(POLL)
            continue
        raise ServerStartError(f"nats-server {reason}. Its log:\n{last_lines(log)}")


def wait_for_ports(files: ServerFiles, process: Guarded, *, deadline: float) -> dict[str, int]:
    """Wait for the server's ports, by kind, `nats` for clients."""
    while (ports := files.read_ports(process.pid)) is None:
        if time.monotonic() > deadline:
            raise ServerStartError(
                f"nats-server did not report its ports in time. Its log:\n{last_lines(files.read_log())}"
            )
        time.sleep(POLL)
    return ports


def read_info(port: int, *, silent: bool, deadline: float) -> dict[str, object]:
    """Connect as a client and read INFO; empty when the server is `silent` until TLS is up."""
    try:
        remaining = max(deadline - time.monotonic(), POLL)
        with socket.create_connection((HOST, port), timeout=remaining) as client:
            if silent:
                return {}
            line = b""
            while not line.endswith(b"\n") and len(line) < _INFO_LIMIT and (data := client.recv(65536)):
                line += data
    except OSError as error:
        raise ServerStartError(f"nats-server does not answer on port {port}: {error}") from error
    try:
        info: object = json.loads(line.removeprefix(b"INFO "))
    except ValueError:
        info = None
    if not isinstance(info, dict):
        raise ServerStartError(f"the program that listens on port {port} is not a NATS server")
    return info


def is_open(info: Mapping[str, object]) -> bool:
    """Whether INFO is that of a server which other machines reach, and which asks for no credentials."""
    host = str(info.get("host", HOST))
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return not (local or info.get("auth_required") or info.get("tls_verify"))
