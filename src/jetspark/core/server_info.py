"""What a server says about itself in INFO, and which features follow from its version.

This is the one place that reads the version: code that needs a newer server asks `ServerInfo.supports`.
"""

from __future__ import annotations

import enum
import re
from typing import Final

import msgspec

from jetspark.core.json import decode_json

__all__ = ["Feature", "ServerInfo"]

_VERSION: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")


class Feature(enum.Enum):
    """A feature that not every server has, with the first nats-server version that has it."""

    CONSUMER_NAMES = (2, 9)
    BATCH_DIRECT_GET = (2, 11)
    ATOMIC_BATCH = (2, 12)
    CONSUMER_RESET = (2, 14)

    @property
    def since(self) -> str:
        """The version as text, such as `2.11`."""
        return "{}.{}".format(*self.value)


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The INFO of the server in use."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    host: str = ""
    port: int = 0
    #: Largest message, headers included, that the server accepts.
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

    def supports(self, feature: Feature) -> bool:
        """Whether the server has a feature. A server whose version cannot be read counts as new."""
        found = _VERSION.match(self.version)
        return found is None or (int(found[1]), int(found[2])) >= feature.value

    @classmethod
    def parse(cls, json: bytes) -> ServerInfo:
        """Read INFO's JSON. Raises `RemoteProtocolError`."""
        return decode_json(json, cls, "a valid INFO")
