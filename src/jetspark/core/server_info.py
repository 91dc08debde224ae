"""What a server says about itself in INFO."""

from __future__ import annotations

import msgspec

from jetspark.errors import RemoteProtocolError

__all__ = ["ServerInfo"]


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The INFO of the server in use."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    host: str = ""
    port: int = 0
    #: Largest message, headers included, that the server takes.
    max_payload: int = 1024 * 1024
    headers: bool = False
    proto: int = 0
    jetstream: bool = False
    domain: str = ""
    cluster: str = ""
    client_id: int = 0
    client_ip: str = ""
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    nonce: str = ""
    #: Other servers of the cluster, as `host:port`.
    connect_urls: list[str] = []
    #: Lame-duck mode: the server is about to shut down.
    lame_duck: bool = msgspec.field(name="ldm", default=False)

    @classmethod
    def parse(cls, json: bytes) -> ServerInfo:
        """Read INFO's JSON. Raises `RemoteProtocolError`."""
        try:
            return msgspec.json.decode(json, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RemoteProtocolError(f"the server sent an INFO that cannot be read: {error}") from None
