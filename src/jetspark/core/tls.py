"""Whether a connection is encrypted, and with which context.

A context is created for every connect, so that a rotated certificate is used.
"""

from __future__ import annotations

import ssl

from jetspark.core.options import ConnectOptions
from jetspark.core.server_info import ServerInfo
from jetspark.core.servers import PoolServer
from jetspark.errors import TLSError, UsageError

__all__ = ["Encryption", "tls_context", "tls_hostname"]


class Encryption:
    """Whether a connection is encrypted. Once it was, it always is: a reconnect never sends in the clear.

    INFO is not protected. Without this rule, an attacker who can change it could have credentials that were
    sent encrypted before sent again in the clear.
    """

    def __init__(self, options: ConnectOptions) -> None:
        self._options = options
        #: Whether TLS was established, with any server.
        self.established = False

    def required(self, server: PoolServer) -> bool:
        """Whether a connection to `server` without TLS must fail."""
        return self.established or self._options.wants_tls or server.tls

    def check(self, server: PoolServer) -> None:
        """Raise `TLSError` if the URL of a WebSocket server contradicts the required encryption."""
        if server.websocket and not server.tls and self.required(server):
            reason = "the connection was encrypted before" if self.established else "TLS is required"
            raise TLSError(
                f"{reason}, and {server.url} is not encrypted", hint="Nothing was sent. Use a wss:// URL"
            )
        if server.websocket and server.tls and self._options.tls is False:
            raise TLSError(f"tls=False, and {server.url} requires TLS")

    def needed(self, server: PoolServer, info: ServerInfo) -> bool:
        """Whether to upgrade after INFO. Raises `TLSError` when the two sides cannot agree."""
        required = self.required(server)
        if required and not (info.tls_required or info.tls_available):
            reason = "the connection was encrypted before" if self.established else "TLS is required"
            raise TLSError(
                f"{reason}, and the server at {server.address} does not offer it",
                hint="Nothing was sent. Use a new connection, to nats://, to connect without encryption",
            )
        if self._options.tls is False and info.tls_required:
            raise TLSError(f"tls=False, and the server at {server.address} requires TLS")
        return required or info.tls_required


def tls_context(options: ConnectOptions) -> ssl.SSLContext:
    """The user's context, or one that trusts the system's roots or the given CA and checks host names."""
    if isinstance(options.tls, ssl.SSLContext):
        return options.tls
    try:
        context = ssl.create_default_context(cafile=options.tls_ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"tls_ca_file: cannot use {str(options.tls_ca_file)!r}: {error}") from None
    if options.tls_cert_file is not None:
        try:
            context.load_cert_chain(options.tls_cert_file, options.tls_key_file)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"tls_cert_file: cannot use {str(options.tls_cert_file)!r}: {error}") from None
    return context


def tls_hostname(options: ConnectOptions, server: PoolServer) -> str:
    """The name that the server's certificate must have."""
    return options.tls_hostname or server.tls_name or server.host
