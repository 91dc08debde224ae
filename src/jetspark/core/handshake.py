"""From a server's address to a connection: TCP, INFO, TLS, CONNECT, and the PONG that confirms it.

Credentials are sent only after the requested encryption is established.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl

import msgspec

from jetspark import errors
from jetspark._version import __version__
from jetspark.core.auth import auth_fields
from jetspark.core.dial import dial
from jetspark.core.options import ConnectOptions, check_websocket_headers
from jetspark.core.server_info import ServerInfo
from jetspark.core.servers import PoolServer
from jetspark.core.tls import Encryption, tls_context, tls_hostname
from jetspark.core.transport import Transport
from jetspark.core.websocket import WebSocketTransport
from jetspark.wire import ErrFrame, InfoFrame, OkFrame, PingFrame, PongFrame, encode

__all__ = ["handshake", "server_error"]

_AUTH_ERRORS = ("authorization violation", "authentication", "user authentication", "account authentication")


async def handshake(
    server: PoolServer, options: ConnectOptions, encryption: Encryption
) -> tuple[Transport, ServerInfo]:
    """Connect to one server within `connect_timeout`.

    Raises an `Error`, such as `AuthorizationError`, `TLSError`, `Timeout` or `ConnectionError`.
    """
    deadline = asyncio.get_running_loop().time() + options.connect_timeout
    transport: Transport | None = None
    try:
        async with asyncio.timeout_at(deadline):
            encryption.check(server)
            transport = await _connect(await dial(server, options, deadline), server, options)
            if isinstance(transport, WebSocketTransport):
                await transport.upgrade(_host_header(server), server.path, _headers(options))
            return transport, await _greet(transport, server, options, encryption, deadline)
    except BaseException as error:
        if transport is not None:
            transport.fail(error if isinstance(error, Exception) else errors.ConnectionError("given up"))
        explained = _explain(error, server, options)
        if explained is error:
            raise
        raise explained from error


async def _connect(sock: socket.socket, server: PoolServer, options: ConnectOptions) -> Transport:
    first = options.tls_handshake_first or (server.websocket and server.tls)
    try:
        _, transport = await asyncio.get_running_loop().create_connection(
            WebSocketTransport if server.websocket else Transport,
            sock=sock,
            ssl=tls_context(options) if first else None,
            server_hostname=tls_hostname(options, server) if first else None,
            ssl_handshake_timeout=options.connect_timeout if first else None,
        )
    except BaseException:
        sock.close()
        raise
    return transport


def _host_header(server: PoolServer) -> str:
    host = f"[{server.host}]" if ":" in server.host else server.host.encode("idna").decode()
    return host if server.port == (443 if server.tls else 80) else f"{host}:{server.port}"


def _headers(options: ConnectOptions) -> list[tuple[str, str]]:
    """The user's headers for the WebSocket upgrade, from a function at each connect."""
    given = options.websocket_headers
    return check_websocket_headers(given() if callable(given) else given or {})


async def _greet(
    transport: Transport,
    server: PoolServer,
    options: ConnectOptions,
    encryption: Encryption,
    deadline: float,
) -> ServerInfo:
    frame = await transport.next_frame(deadline)
    if isinstance(frame, ErrFrame):
        raise server_error(frame.message)
    if not isinstance(frame, InfoFrame):
        raise errors.RemoteProtocolError(
            "the server did not start with INFO", hint="Is this the port of a NATS server?"
        )
    info = ServerInfo.parse(frame.json)
    if options.tls_handshake_first or server.websocket:
        encryption.established = encryption.established or options.tls_handshake_first or server.tls
    elif encryption.needed(server, info):
        remaining = deadline - asyncio.get_running_loop().time()
        await transport.start_tls(tls_context(options), tls_hostname(options, server), remaining)
        encryption.established = True
        if not (options.tls_hostname or server.common_name):
            # Nothing else vouches for servers that were listed in the clear. The next INFO is encrypted.
            info = msgspec.structs.replace(info, connect_urls=[])
    fields = {
        "verbose": False,
        "pedantic": False,
        "lang": "python",
        "version": __version__,
        "protocol": 1,
        "headers": True,
        "no_responders": True,
        "echo": not options.no_echo,
        "tls_required": encryption.required(server),
        "name": options.name,
        **await auth_fields(options, server, info.nonce),
    }
    transport.write(encode.connect(msgspec.json.encode(fields)) + encode.PING)
    while True:
        match await transport.next_frame(deadline):
            case PongFrame() if not transport.closed.done():
                return info
            case ErrFrame(message):
                raise server_error(message)
            case PingFrame():
                transport.write(encode.PONG)
            case InfoFrame(json):
                # A server may send a new INFO once it knows the account.
                info = ServerInfo.parse(json)
            case OkFrame() | PongFrame():
                pass  # Accepted and closed: the next frame, or the loss, gives the reason.
            case _:
                raise errors.RemoteProtocolError("the server sent messages before it accepted the connection")


def server_error(message: str) -> errors.ServerError:
    """The exception for the text of an -ERR."""
    lower = message.lower()
    if lower.startswith("permissions violation"):
        return errors.PermissionsViolation(message, hint="The user needs this subject in its permissions")
    if lower.startswith(_AUTH_ERRORS):
        return errors.AuthorizationError(
            f"the server refused the credentials: {message}",
            hint="Check user and password, token, nkey or credentials file",
        )
    return errors.ServerError(f"the server reports: {message}")


def _explain(error: BaseException, server: PoolServer, options: ConnectOptions) -> BaseException:
    """Convert an error to a jetspark error that names the server."""
    where = server.address
    if isinstance(error, TimeoutError) and not isinstance(error, errors.Error):
        return errors.Timeout(f"{where} did not answer within {options.connect_timeout} s")
    if isinstance(error, errors.Error) or not isinstance(error, Exception):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return errors.TLSError(
            f"the certificate of {where} is not accepted: {error.verify_message}",
            hint="Check tls_ca_file, tls_hostname and the certificate's validity",
        )
    if isinstance(error, ssl.SSLError):
        return errors.TLSError(f"TLS with {where} failed: {error.reason or error}")
    if isinstance(error, OSError):
        # asyncio replaces the reason of the system with the address.
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)
        return errors.ConnectionError(f"cannot connect to {where}: {reason}")
    return error
