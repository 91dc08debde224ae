"""Asks a cluster whether JetStream can replicate: creates a stream on all servers and deletes it.

A known leader is not enough: for a moment after its election it considers peers offline and refuses streams
with "no suitable peers for placement", in about one start of thirty. The few lines of NATS protocol are
written here because this package may not import the client.
"""

from __future__ import annotations

import json
import socket
from typing import BinaryIO

from jetspark.server.config import HOST
from jetspark.server.options import Options

__all__ = ["can_replicate", "credentials"]

_STREAM = "jetspark-probe"
_INBOX = "_INBOX.jetspark-probe"
# The errors of a cluster that is not ready yet: no peers for placement, JetStream not available,
# not the leader, insufficient resources. Any other answer depends on the account.
_NOT_YET = frozenset({10005, 10008, 10009, 10023})


def credentials(options: Options) -> dict[str, str] | None:
    """Return the CONNECT fields that log in; `None` when a plain socket cannot log in."""
    if options.tls is not None:
        return None
    if options.token is not None:
        return {"auth_token": options.token}
    for user in options.users:
        open_to_all = user.publish_allow is None and user.subscribe_allow is None
        if open_to_all and not user.publish_deny and not user.subscribe_deny:
            return {"user": user.user, "pass": user.password}
    return None if options.users or options.nkeys else {}


def can_replicate(port: int, replicas: int, login: dict[str, str], *, timeout: float) -> bool:
    """Whether a stream with `replicas` replicas can be created now. Each read waits `timeout` seconds.

    Also true when the server denies the request, which `config` may cause.
    """
    try:
        with (
            socket.create_connection((HOST, port), timeout=timeout) as client,
            client.makefile("rb") as lines,
        ):
            client.sendall(
                f"CONNECT {json.dumps({'verbose': False, **login})}\r\nSUB {_INBOX} 1\r\n".encode()
            )
            config = {"name": _STREAM, "subjects": [_STREAM], "storage": "memory", "num_replicas": replicas}
            created = _ask(client, lines, f"STREAM.CREATE.{_STREAM}", config)
            if created in _NOT_YET:
                return False
            return created != 0 or _ask(client, lines, f"STREAM.DELETE.{_STREAM}", {}) not in _NOT_YET
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False


def _ask(client: socket.socket, lines: BinaryIO, verb: str, request: dict[str, object]) -> int:
    """Return the error code of the answer, or 0. Raises PermissionError for -ERR, OSError without answer."""
    payload = json.dumps(request)
    client.sendall(f"PUB $JS.API.{verb} {_INBOX} {len(payload)}\r\n{payload}\r\n".encode())
    while line := lines.readline():
        if line.startswith(b"MSG "):
            answer = json.loads(lines.read(int(line.split()[-1]) + 2))
            return int(answer.get("error", {}).get("err_code", 0))
        if line.startswith(b"-ERR"):
            raise PermissionError(line.decode("utf-8", "replace"))
        if line.startswith(b"PING"):
            client.sendall(b"PONG\r\n")
    raise ConnectionError("the server closed the connection")
