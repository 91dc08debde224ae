"""Proxies: asks a SOCKS5 or HTTP proxy for a connection to a server.

The proxy resolves the server's name. Answers are read to their last byte and no further: what follows comes
from the server. References: RFC 1928 and 1929 (SOCKS5), RFC 9110, 9.3.6 (CONNECT).
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import ipaddress
import socket
from typing import Final
from urllib.parse import unquote

from jetspark.core.servers import shown_url, split_url
from jetspark.errors import ConnectionError, UsageError

__all__ = ["Proxy", "parse_proxy", "tunnel"]

_PORTS: Final = {"socks5": 1080, "socks5h": 1080, "http": 80}
#: Most bytes that an HTTP proxy may answer before the connection is open.
_MOST_ANSWER: Final = 16 * 1024
_SOCKS_ERRORS: Final = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


@dataclasses.dataclass(frozen=True)
class Proxy:
    """A proxy as its URL describes it."""

    scheme: str
    host: str
    port: int
    user: str | None = dataclasses.field(default=None, repr=False)
    password: str = dataclasses.field(default="", repr=False)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_proxy(url: str) -> Proxy:
    """Read `socks5://[user:password@]host[:port]` or `http://...`. Raises `UsageError` without secrets."""
    split = split_url(url) if "://" in url and url.isprintable() and " " not in url else None
    if split is None or not split[1] or split[0].path not in ("", "/") or split[0].query:
        raise UsageError(
            f"proxy: {shown_url(url)!r} is not a URL like socks5://host:1080 or http://host:8080"
        )
    parts, host, port = split
    if parts.scheme not in _PORTS:
        raise UsageError(
            f"proxy: {shown_url(url)!r} has the scheme {parts.scheme!r}; socks5 and http are supported"
        )
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password or "")
    if max(len((user or "").encode("utf-8", "replace")), len(password.encode("utf-8", "replace"))) > 255:
        raise UsageError("proxy: user and password may have 255 bytes at most")
    return Proxy(parts.scheme, host, port or _PORTS[parts.scheme], user, password)


async def tunnel(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Ask the proxy at the other end of `sock` to connect it with a server. Raises `ConnectionError`."""
    if proxy.scheme == "http":
        await _http_connect(sock, proxy, host, port)
    else:
        await _socks5(sock, proxy, host, port)


async def _http_connect(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    target = f"[{host}]:{port}" if ":" in host else f"{host.encode('idna').decode()}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.user is not None:
        secret = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {secret}")
    await _send(sock, ("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        if len(answer) >= _MOST_ANSWER:
            raise ConnectionError(f"the proxy {proxy.address} answered more than {_MOST_ANSWER} bytes")
        answer += await _receive(sock, 1, proxy)
    status = answer.partition(b"\r\n")[0].split(b" ", 2)
    if len(status) < 2 or not status[0].startswith(b"HTTP/1.") or not status[1].startswith(b"2"):
        shown = answer.partition(b"\r\n")[0][:200].decode("ascii", "backslashreplace")
        raise ConnectionError(f"the proxy {proxy.address} refused the connection to {target}: {shown!r}")


async def _socks5(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    # Version 5, and the ways to authenticate: none, or user and password.
    await _send(sock, b"\x05\x02\x00\x02" if proxy.user is not None else b"\x05\x01\x00")
    version, method = await _receive(sock, 2, proxy)
    if version != 5:
        raise ConnectionError(f"{proxy.address} is not a SOCKS5 proxy")
    if method == 2 and proxy.user is not None:
        user, password = proxy.user.encode(), proxy.password.encode()
        await _send(sock, b"\x01%c%b%c%b" % (len(user), user, len(password), password))
        if (await _receive(sock, 2, proxy))[1] != 0:
            raise ConnectionError(f"the proxy {proxy.address} refused its user or password")
    elif method != 0:
        raise ConnectionError(
            f"the proxy {proxy.address} needs user and password", hint="Use socks5://user:password@host:port"
        )
    await _send(sock, b"\x05\x01\x00" + _socks_address(host) + port.to_bytes(2, "big"))
    _, reply, _, kind = await _receive(sock, 4, proxy)
    if reply != 0:
        reason = _SOCKS_ERRORS.get(reply, f"error {reply}")
        raise ConnectionError(f"the proxy {proxy.address} cannot connect to {host}:{port}: {reason}")
    # The address that the proxy uses: IPv4, a name with its length, or IPv6; then a port.
    size = {1: 4, 4: 16}.get(kind)
    if size is None:
        size = (await _receive(sock, 1, proxy))[0]
    await _receive(sock, size + 2, proxy)


def _socks_address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("idna")
        return b"\x03%c%b" % (len(name), name)
    return (b"\x01" if address.version == 4 else b"\x04") + address.packed


async def _send(sock: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(sock, data)


async def _receive(sock: socket.socket, size: int, proxy: Proxy) -> bytes:
    data = b""
    while len(data) < size:
        more = await asyncio.get_running_loop().sock_recv(sock, size - len(data))
        if not more:
            raise ConnectionError(f"the proxy {proxy.address} closed the connection")
        data += more
    return data
