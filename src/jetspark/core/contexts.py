"""Contexts of the `nats` CLI: named connection settings, one JSON file each. Read, never written.

They are in `nats/context/<name>.json` under `XDG_CONFIG_HOME`, by default `~/.config`; `nats/context.txt`
holds the name of the selected one. The format is that of nats-io/jsm.go, natscontext.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import msgspec

from jetspark.core.paths import expanded
from jetspark.errors import UsageError

__all__ = ["Context", "load", "names", "selected"]

_HINT: Final = "`nats context ls` lists the contexts; they are files in {directory}"
#: Seconds that `nsc` may take.
_NSC_TIMEOUT: Final = 10.0


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a context file. Fields that only the `nats` CLI uses are left out."""

    description: str = ""
    url: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    creds: str = ""
    nkey: str = ""
    user_jwt: str = ""
    user_seed: str = ""
    cert: str = ""
    key: str = ""
    ca: str = ""
    nsc: str = ""
    socks_proxy: str = ""
    jetstream_domain: str = ""
    jetstream_api_prefix: str = ""
    inbox_prefix: str = ""
    tls_first: bool = False

    def __repr__(self) -> str:
        return f"<Context {self.description or self.url!r}>"  # without secrets

    def connect_options(self) -> dict[str, Any]:
        """The arguments of `connect` that the context sets. Runs `nsc` if it refers to it."""
        options: dict[str, Any] = {
            "servers": self.url,
            "tls_ca_file": _path(self.ca, "ca"),
            "tls_cert_file": _path(self.cert, "cert"),
            "tls_key_file": _path(self.key, "key"),
            "tls_handshake_first": self.tls_first,
            "inbox_prefix": self.inbox_prefix,
            "proxy": self.socks_proxy,
            "jetstream_domain": self.jetstream_domain,
            "jetstream_api_prefix": self.jetstream_api_prefix,
        }
        options.update(self._credentials())
        if self.nsc:
            profile = _nsc_profile(self.nsc)
            options.setdefault("credentials_file", profile.user_creds)
            options["servers"] = self.url or ",".join(profile.operator.service)
        return {name: value for name, value in options.items() if value}

    def _credentials(self) -> dict[str, Any]:
        """The first kind of credentials that the context has, in the order of the `nats` CLI."""
        if self.user:
            return {"user": self.user, "password": _secret(self.password, "password")}
        if self.creds.startswith("nsc://"):
            return {"credentials_file": _nsc_profile(self.creds).user_creds}
        if self.creds:
            return {"credentials_file": _path(self.creds, "creds")}
        if self.nkey:
            return {"nkey_seed_file": _path(self.nkey, "nkey")}
        if self.user_jwt:
            jwt, seed = _secret(self.user_jwt, "user_jwt"), _secret(self.user_seed, "user_seed")
            if seed:
                return {
                    "credentials": f"-----BEGIN NATS USER JWT-----\n{jwt}\n-----END NATS USER JWT-----\n"
                    f"-----BEGIN USER NKEY SEED-----\n{seed}\n-----END USER NKEY SEED-----\n"
                }
            # The server does not ask the owner of a bearer token for a signature.
            return {"user_jwt": lambda: jwt, "sign": lambda _: b""}
        return {"token": _secret(self.token, "token")} if self.token else {}


class _Operator(msgspec.Struct):
    service: list[str] = []


class _Profile(msgspec.Struct):
    """The output of `nsc generate profile`."""

    user_creds: str = ""
    operator: _Operator = msgspec.field(default_factory=_Operator)


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
    """Read a context. Raises `UsageError` if it does not exist or cannot be read."""
    directory = _directory() / "context"
    # The name becomes a file name, and must not lead out of the directory.
    if not isinstance(name, str) or not name or name.startswith(".") or set(name) & {"/", "\\", "\0"}:
        raise UsageError(f"{name!r} is not a valid context name")
    path = directory / f"{name}.json"
    try:
        context = msgspec.json.decode(path.read_bytes(), type=Context)
    except FileNotFoundError:
        hint = _HINT.format(directory=directory)
        raise UsageError(f"context {name!r} not found", hint=hint) from None
    except (OSError, UnicodeEncodeError) as error:
        raise UsageError(f"context {name!r}: {path}: {getattr(error, 'strerror', error)}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        context = None
    if context is None:
        # Not in the `except` block: the context of the error would hold the file, and perhaps a secret.
        raise UsageError(f"context {name!r}: {path} is not a valid context file")
    return context


def _directory() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    return Path(home or os.path.expanduser("~/.config")) / "nats"


def _path(text: str, field: str) -> Path | None:
    scheme, divider, rest = text.partition("://")
    if divider and scheme != "file":
        raise UsageError(f"the context's {field} is a {scheme}:// reference, which jetspark does not support")
    return expanded(rest if divider else text) if text else None


def _secret(text: str, field: str) -> str:
    """A secret of a context: the text, or the value of the variable that an `env://` reference names."""
    scheme, divider, rest = text.partition("://")
    if divider and scheme == "op":
        raise UsageError(f"the context's {field} is an op:// reference, which jetspark does not support")
    if not divider or scheme != "env":
        return text
    if rest not in os.environ:
        raise UsageError(f"the context's {field} refers to the variable {rest}, which is not set")
    return os.environ[rest]


def _nsc_profile(reference: str) -> _Profile:
    """The profile that `nsc` has of a user, `nsc://operator/account/user`."""
    nsc = shutil.which("nsc")
    if nsc is None:
        raise UsageError(
            f"the context refers to {reference}, but `nsc` is not on the PATH",
            hint="Install nsc, or use a credentials file (creds)",
        )
    command = [nsc, "generate", "profile", reference.removeprefix("nsc://")]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_NSC_TIMEOUT, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = (
            "it did not answer in time" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
        )
        raise UsageError(f"`nsc generate profile` for {reference} failed: {reason}") from None
    if done.returncode != 0:
        # Its stdout may hold a JWT, and is not shown.
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
        raise UsageError(f"`nsc generate profile` for {reference} failed: {said}")
    try:
        return msgspec.json.decode(done.stdout, type=_Profile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    raise UsageError(f"`nsc generate profile` for {reference} did not print a profile")
