"""Contexts of the `nats` CLI: named settings of a connection, one JSON file each. Read, never written.

They are in `nats/context/<name>.json` under `XDG_CONFIG_HOME`, by default `~/.config`; `nats/context.txt`
names the one that is selected.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from jetspark.cli.ui.failure import Exit, Failure

__all__ = ["Context", "load", "names", "selected"]

_HINT: Final = "`nats context ls`, or the files in {directory}, show what there is"


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says. Fields that only the `nats` CLI needs are left out."""

    description: str = ""
    url: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    creds: str = ""
    nkey: str = ""
    cert: str = ""
    key: str = ""
    ca: str = ""
    nsc: str = ""
    socks_proxy: str = ""
    user_jwt: str = ""
    jetstream_domain: str = ""
    jetstream_api_prefix: str = ""
    inbox_prefix: str = ""
    tls_first: bool = False

    def __repr__(self) -> str:
        return f"<Context {self.description or self.url!r}>"  # without what is secret


def _directory() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "nats"


def names() -> list[str]:
    """All contexts."""
    return sorted(path.stem for path in (_directory() / "context").glob("*.json"))


def selected() -> str | None:
    """The name in context.txt, if there is one."""
    try:
        return (_directory() / "context.txt").read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def load(name: str) -> Context:
    """Read a context. Raises `Failure` when there is none of this name, or it cannot be read."""
    directory = _directory() / "context"
    # The name is that of a file here, and must not lead elsewhere.
    if not name or name.startswith(".") or "/" in name or "\\" in name or "\0" in name:
        raise Failure(f"{name!r} is no name of a context", code=Exit.USAGE)
    path = directory / f"{name}.json"
    try:
        context = msgspec.json.decode(path.read_bytes(), type=Context)
    except FileNotFoundError:
        hint = _HINT.format(directory=directory)
        raise Failure(f"there is no context {name!r}", hint, Exit.USAGE) from None
    except OSError as error:
        raise Failure(f"context {name!r}: {path}: {error.strerror}", code=Exit.USAGE) from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # The error would quote the file, which may hold a secret.
        raise Failure(f"context {name!r}: {path} is not the JSON of a context", code=Exit.USAGE) from None
    for field in ("nsc", "socks_proxy", "user_jwt"):
        if getattr(context, field):
            raise Failure(
                f"context {name!r} uses {field}, which jetspark does not support",
                "Use a credentials file, creds, in its place",
                Exit.USAGE,
            )
    return context
