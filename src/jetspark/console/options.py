"""How the console runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Final

from jetspark.console.security import check_token, is_loopback
from jetspark.errors import UsageError

__all__ = ["DEFAULT_PORT", "ConsoleOptions"]

DEFAULT_PORT: Final = 8280


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConsoleOptions:
    """How the console runs. Raises `UsageError` at construction."""

    #: The address to listen on. Any other than loopback needs a `token`.
    address: str = "127.0.0.1"
    #: The port; 0 chooses a free one.
    port: int = DEFAULT_PORT
    #: Whether it may change anything.
    write: bool = False
    #: The token, 16 or more characters; a random one by default.
    token: str | None = None
    #: Names under which browsers reach it, besides IP addresses and `localhost`.
    names: tuple[str, ...] = ()
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None

    def __post_init__(self) -> None:
        if self.token is not None:
            check_token(self.token)
        if not self.is_local and self.token is None:
            raise UsageError(
                f"a console on {self.address} needs a token of your own",
                hint="Put one into JETSPARK_CONSOLE_TOKEN or into the file of --console-token-file",
            )
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise UsageError("a certificate needs its key, and a key its certificate")

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine reach it."""
        return is_loopback(self.address)

    @property
    def tls(self) -> bool:
        return self.tls_cert_file is not None
