"""The INFO of a server, and the features that follow from it.

The JetStream API has levels (ADR-44): a server states its level, and each feature has the level that it came
with. This is the one place that reads versions, for servers from before the levels.
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
    """A feature that not every server has: its API level, and the first nats-server version that has it."""

    #: Older than the API levels: only the version decides.
    CONSUMER_NAMES = (0, "2.9")
    BATCH_DIRECT_GET = (1, "2.11")
    ATOMIC_BATCH = (2, "2.12")
    CONSUMER_RESET = (4, "2.14")

    @property
    def level(self) -> int:
        """The level of the JetStream API that has it."""
        return self.value[0]

    @property
    def since(self) -> str:
        """The version as text, such as `2.11`."""
        return self.value[1]


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
    #: The level of its JetStream API; 0 before 2.11, and without JetStream.
    api_level: int = msgspec.field(name="api_lvl", default=0)
    #: Lame-duck mode: the server is about to shut down.
    lame_duck: bool = msgspec.field(name="ldm", default=False)

    def supports(self, feature: Feature) -> bool:
        """Whether this server has a feature. JetStream may be on another one: see `API.supports`.

        A server whose version cannot be read counts as new, for features that only the version decides.
        """
        if self.api_level or feature.level:
            return self.api_level >= feature.level
        found, needed = _VERSION.match(self.version), _VERSION.match(feature.since)
        return found is None or needed is None or _numbers(found) >= _numbers(needed)

    @classmethod
    def parse(cls, json: bytes) -> ServerInfo:
        """Read INFO's JSON. Raises `RemoteProtocolError`."""
        return decode_json(json, cls, "a valid INFO")


def _numbers(version: re.Match[str]) -> tuple[int, int]:
    return int(version[1]), int(version[2])
