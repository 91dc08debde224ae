"""Free ports on loopback, and ports that no other process is given while their server is down.

The kernel gives the ports of `ip_local_port_range` to outgoing connections, and to programs that ask for any
port. A client that still looks for its server on such a port, after the server is gone, could reach another
program. Free ports are therefore picked at random outside of that range.

A socket that is bound but does not listen holds its port. It is bound without SO_REUSEADDR, which the kernel
refuses if any other socket has the port, so two processes never pick the same one. Then it gets SO_REUSEADDR:
from now on nats-server, which sets it too, can listen on the port, while a bind without it still fails.
This works on Linux only. Elsewhere nothing is held, and a server finds its port taken if another process got
it meanwhile.
"""

from __future__ import annotations

import random
import socket
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jetspark.server.config import HOST

__all__ = ["HeldPorts", "bind_free_port", "free_ports", "ports_outside"]

_CAN_HOLD = sys.platform == "linux"
#: The lowest port to pick: those below are for well-known services.
_LOWEST: Final = 20_000
#: The ports that Linux gives out by default. Those of macOS begin later.
_GIVEN_OUT: Final = (32_768, 60_999)
#: Ports to try before the kernel chooses one.
_ATTEMPTS: Final = 100

#: Not the module's generator: processes that seed it alike would pick the same ports.
_choice: Final = random.SystemRandom().choice


def ports_outside(first: int, last: int) -> Sequence[int]:
    """The ports to pick from if the kernel gives out `first` to `last`."""
    below = range(_LOWEST, first)
    return below if below else range(max(last + 1, _LOWEST), 65_536)


def _given_out() -> tuple[int, int]:
    try:
        first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()
        return int(first), int(last)
    except (OSError, ValueError):
        return _GIVEN_OUT


def bind_free_port(candidates: Sequence[int] | None = None) -> socket.socket:
    """A socket that is bound to one of `candidates`, by default the ports that the kernel does not give out.

    The socket may listen itself; on Linux, another one may listen while it is open. If all attempts fail, the
    kernel chooses the port.
    """
    if candidates is None:
        candidates = ports_outside(*_given_out())
    for _ in range(_ATTEMPTS if candidates else 0):
        if (bound := _bind(_choice(candidates))) is not None:
            return bound
    bound = _bind(0)
    if bound is None:
        raise OSError(f"no port of {HOST} is free")
    return bound


def _bind(port: int, *, shared: bool = False) -> socket.socket | None:
    """A bound socket with SO_REUSEADDR, set before the bind if `shared`; None if the port is taken."""
    bound = socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(shared))
        bound.bind((HOST, port))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        bound.close()
        return None
    return bound


def free_ports(count: int) -> list[int]:
    """Ports that were all free at the same time. They are not held."""
    sockets: list[socket.socket] = []
    try:
        while len(sockets) < count:
            sockets.append(bind_free_port())
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class HeldPorts:
    """The ports of one server, from its first start until it is stopped."""

    def __init__(self) -> None:
        self._sockets: dict[int, socket.socket] = {}
        weakref.finalize(self, _close, self._sockets)

    def hold(self, port: int) -> int:
        """Hold `port`, or a free port for 0, and return its number. Returns 0 where nothing can be held."""
        if not _CAN_HOLD or port in self._sockets:
            return port
        # A given port may have connections of an earlier server, which only SO_REUSEADDR ignores.
        holder = _bind(port, shared=True) if port else bind_free_port()
        if holder is None:
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
