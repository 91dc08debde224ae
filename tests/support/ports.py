"""Ports of servers that are down for a while."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["held"]


@contextmanager
def held(port: int) -> Iterator[None]:
    """Let nobody but a server take the port: bound and not listening, it refuses clients."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        yield
