"""Every exception that jetspark raises. Nothing else lives here.

```
Error                              everything below; carries `hint`, what the user can do about it
├── UsageError (ValueError)        a bad argument or option; nothing was sent
│   ├── MaxPayloadError            the message is larger than the server's `max_payload`
│   └── HeadersNotSupported        headers were given, the server does not take them
├── Timeout (TimeoutError)         a deadline passed; the connection goes on
├── ConnectionError (OSError)      the connection could not be made or kept
│   ├── NoServersError             none of the servers could be reached
│   ├── ConnectionClosed           the connection is closed (by the user or for good)
│   ├── ConnectionLost             it broke under a request; it is reconnecting
│   ├── ConnectionDraining         the connection or subscription is draining
│   ├── StaleConnection            pings were not answered
│   ├── OutboundBufferFull         `pending_size` bytes are waiting to be written
│   └── TLSError                   TLS was required and could not be had
├── ServerError                    the server said -ERR
│   ├── AuthorizationError         wrong, missing or expired credentials
│   └── PermissionsViolation       the subject is not allowed to this user
├── NoResponders                   nobody listens on the subject of a request
├── RemoteProtocolError            the peer sent something that is not the NATS protocol
├── SlowConsumer                   a subscription was full and dropped messages
├── SubscriptionClosed             the subscription was unsubscribed or its connection closed
├── ServerStartError               nats-server did not start; the message holds its log
└── ServerNotFound                 no nats-server executable
```

All of them survive pickling with their attributes and hints, so that they can cross process borders.
"""

from __future__ import annotations

import builtins
from typing import Any

__all__ = [
    "AuthorizationError",
    "ConnectionClosed",
    "ConnectionDraining",
    "ConnectionError",
    "ConnectionLost",
    "Error",
    "HeadersNotSupported",
    "MaxPayloadError",
    "NoResponders",
    "NoServersError",
    "OutboundBufferFull",
    "PermissionsViolation",
    "RemoteProtocolError",
    "ServerError",
    "ServerNotFound",
    "ServerStartError",
    "SlowConsumer",
    "StaleConnection",
    "SubscriptionClosed",
    "TLSError",
    "Timeout",
    "UsageError",
]


def _rebuild(cls: type[Error], args: tuple[object, ...], state: dict[str, Any]) -> Error:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class Error(Exception):
    """The root of the tree. `hint` says what the user can do, when there is something."""

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = str(self.args[0]) if self.args else type(self).__name__
        return f"{message}. {self.hint}" if self.hint else message

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class UsageError(Error, ValueError):
    """A bad argument or option. Nothing was sent."""


class MaxPayloadError(UsageError):
    """The message is larger than the server accepts. Refused locally, so the connection stays."""


class HeadersNotSupported(UsageError):
    """Headers were given, and the server does not take them."""


class Timeout(Error, TimeoutError):
    """A deadline passed. The connection goes on."""


class ConnectionError(Error, builtins.ConnectionError):
    """The connection could not be made or kept."""


class NoServersError(ConnectionError):
    """None of the servers could be reached; the message lists why, one reason a server."""


class ConnectionClosed(ConnectionError):
    """The connection is closed, by the user or because reconnecting was given up."""


class ConnectionLost(ConnectionError):
    """The connection broke while an answer was awaited. It reconnects; whether the server saw the request is unknown."""


class ConnectionDraining(ConnectionError):
    """The connection or the subscription is draining and takes nothing new."""


class StaleConnection(ConnectionError):
    """Pings were not answered in time: the peer is gone without having said so."""


class OutboundBufferFull(ConnectionError):
    """As many bytes as `pending_size` allows wait to be written. The message was not taken."""


class TLSError(ConnectionError):
    """TLS was required and could not be had. No credentials were sent."""


class ServerError(Error):
    """The server answered -ERR."""


class AuthorizationError(ServerError):
    """Wrong, missing, revoked or expired credentials."""


class PermissionsViolation(ServerError):
    """The user may not publish or subscribe there. The connection stays."""


class NoResponders(Error):
    """Nobody listens on the subject of a request."""


class RemoteProtocolError(Error):
    """The peer sent something that is not the NATS protocol."""


class SlowConsumer(Error):
    """A subscription was full, and messages for it were dropped: `dropped` of them until now."""

    def __init__(self, message: str = "", *, subject: str = "", dropped: int = 0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.subject = subject
        self.dropped = dropped


class SubscriptionClosed(Error):
    """The subscription was unsubscribed, or its connection closed."""


class ServerStartError(Error):
    """nats-server did not start. The message holds what it logged."""


class ServerNotFound(Error):
    """There is no nats-server executable to run."""
