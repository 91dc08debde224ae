"""Contexts of the `nats` CLI: named connection settings, one JSON file each. Read, never written.

They are in `nats/context/<name>.json` under `XDG_CONFIG_HOME`, by default `~/.config`; `nats/context.txt`
holds the name of the selected one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from jetspark.cli.ui.failure import Exit, Failure

__all__ = ["Context", "load", "names", "selected"]

_HINT: Final = "`nats context ls` lists the contexts; they are files in {directory}"


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a context file. Fields that only the `nats` CLI uses are left out."""

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
        return f"<Context {self.description or self.url!r}>"  # without secrets


def _directory() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    return Path(home or os.path.expanduser("~/.config")) / "nats"


def names() -> list[str]:
    """The names of all contexts."""
    return sorted(path.stem for path in (_directory() / "context").glob("*.json"))


def selected() -> str | None:
    """The name in context.txt, if any."""
    try:
        return (_directory() / "context.txt").read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def load(name: str) -> Context:
    """Read a context. Raises `Failure` if it does not exist or cannot be read."""
    directory = _directory() / "context"
    # The name becomes a file name, and must not lead out of the directory.
    if not name or name.startswith(".") or "/" in name or "\\" in name or "\0" in name:
        raise Failure(f"{name!r} is not a valid context name", code=Exit.USAGE)
    path = directory / f"{name}.json"
    try:
        context = msgspec.json.decode(path.read_bytes(), type=Context)
    except FileNotFoundError:
        hint = _HINT.format(directory=directory)
        raise Failure(f"context {name!r} not found", hint, Exit.USAGE) from None
    except OSError as error:
        raise Failure(f"context {name!r}: {path}: {error.strerror}", code=Exit.USAGE) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        context = None
    if context is None:
        # Not in the `except` block: the context of the error would hold the file, and perhaps a secret.
        raise Failure(f"context {name!r}: {path} is not a valid context file", code=Exit.USAGE)
    for field in ("nsc", "socks_proxy", "user_jwt"):
        if getattr(context, field):
            raise Failure(
                f"context {name!r} uses {field}, which jetspark does not support",
                "Use a credentials file (creds) instead",
                Exit.USAGE,
            )
    return context
