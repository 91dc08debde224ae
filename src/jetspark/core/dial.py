"""Opens the socket to a server: directly, through a proxy, or with the user's own dialer."""

from __future__ import annotations

import asyncio
import inspect
import random
import socket
from typing import Final, TypeAlias

from jetspark.core.options import ConnectOptions
from jetspark.core.proxy import parse_proxy, tunnel
from jetspark.core.servers import PoolServer
from jetspark.errors import ConnectionError, UsageError

__all__ = ["dial"]

#: Not the generator of the module, whose state belongs to the program.
_random: Final = random.SystemRandom()

_Target: TypeAlias = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


async def dial(server: PoolServer, options: ConnectOptions, deadline: float) -> socket.socket:
    """A connected socket to `server`. Raises `OSError`, and `TimeoutError` at the deadline."""
    if options.dialer is not None:
        return await _call_dialer(server, options)
    if options.proxy is None:
        return await _open_tcp(server.host, server.port, deadline, shuffle=options.shuffle_servers)
    proxy = parse_proxy(options.proxy)
    try:
        sock = await _open_tcp(proxy.host, proxy.port, deadline, shuffle=options.shuffle_servers)
    except TimeoutError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise ConnectionError(f"cannot connect to the proxy {proxy.address}: {reason}") from error
    try:
        await tunnel(sock, proxy, server.host, server.port)
    except BaseException:
        sock.close()
        raise
    return sock


async def _call_dialer(server: PoolServer, options: ConnectOptions) -> socket.socket:
    """The socket that the user's function returns. A plain function runs in a thread: it may block."""
    dialer = options.dialer
    assert dialer is not None
    if inspect.iscoroutinefunction(dialer):
        sock = await dialer(server.host, server.port)
    else:
        sock = await asyncio.to_thread(dialer, server.host, server.port)
        if inspect.isawaitable(sock):
            sock = await sock
    if not isinstance(sock, socket.socket):
        raise UsageError(f"dialer must return a connected socket, not {type(sock).__name__}")
    sock.setblocking(False)
    return sock


async def _open_tcp(host: str, port: int, deadline: float, *, shuffle: bool) -> socket.socket:
    """Connect to one of the addresses of a host, each of which gets its share of the time."""
    loop = asyncio.get_running_loop()
    try:
        # An address needs no resolver, and so no thread.
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if shuffle:
        _random.shuffle(addresses)
    for left in range(len(addresses), 0, -1):
        try:
            async with asyncio.timeout((deadline - loop.time()) / left):
                family, kind, protocol, _, target = addresses[-left]
                return await _open(socket.socket(family, kind, protocol), target)
        except OSError:  # TimeoutError is one.
            if left == 1:
                raise
    raise OSError(f"{host} has no address")


async def _open(sock: socket.socket, target: _Target) -> socket.socket:
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, target)
    except BaseException:
        sock.close()
        raise
    return sock
