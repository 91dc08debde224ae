"""Ports that no other process is given while their server is down.

A socket that is bound but does not listen keeps its port: the kernel assigns the port to no other socket, and
nats-server can still listen on it, because both set SO_REUSEADDR. This works on Linux only. Elsewhere nothing
is held, and a server finds its port taken if another process got it meanwhile.
"""

from __future__ import annotations

import socket
import sys
import weakref

from jetspark.server.config import HOST

__all__ = ["HeldPorts"]

_CAN_HOLD = sys.platform == "linux"


class HeldPorts:
    """The ports of one server, from its first start until it is stopped."""

    def __init__(self) -> None:
        self._sockets: dict[int, socket.socket] = {}
        weakref.finalize(self, _close, self._sockets)

    def hold(self, port: int) -> int:
        """Hold `port`, or a free port for 0, and return its number. Returns 0 where nothing can be held."""
        if not _CAN_HOLD or port in self._sockets:
            return port
        holder = socket.socket()
        try:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((HOST, port))
        except OSError:
            holder.close()
            return port  # Taken: the server reports it.
        number: int = holder.getsockname()[1]
        self._sockets[number] = holder
        return number

    def release(self) -> None:
        _close(self._sockets)


def _close(sockets: dict[int, socket.socket]) -> None:
    for holder in sockets.values():
        holder.close()
    sockets.clear()
