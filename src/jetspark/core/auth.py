"""Authentication: the credentials in CONNECT, built again for every connect.

No secret is kept or logged. An error about one is raised outside of `except` blocks: its context would hold
the text that could not be decoded or encoded. `nkeys` is imported when a signature is needed.
"""

from __future__ import annotations

import base64
import inspect
import re
from contextlib import suppress
from pathlib import Path

from jetspark.core.options import ConnectOptions, Credentials, Secret
from jetspark.core.servers import PoolServer
from jetspark.errors import AuthorizationError, UsageError
from jetspark.wire.subjects import check_text

__all__ = ["auth_fields"]

_SECTION = re.compile(r"-{3,}\s*BEGIN ([A-Z ]+?)\s*-{3,}\s*(\S+)\s*-{3,}\s*END [A-Z ]+?\s*-{3,}")


async def auth_fields(options: ConnectOptions, server: PoolServer, nonce: str) -> dict[str, str]:
    """The fields of CONNECT that authenticate; empty when there are no credentials.

    Options take precedence over the user info of a URL. Raises `AuthorizationError` when a signature is
    needed and the server sent no nonce, `UsageError` when a file or seed cannot be used.
    """
    if options.credentials_file is not None:
        path = Path(options.credentials_file)
        return _sign_credentials(_read(path, "credentials_file"), nonce, "credentials_file", repr(str(path)))
    if options.credentials is not None:
        return _sign_credentials(_credentials(options.credentials), nonce, "credentials", "the text")
    if options.user_jwt is not None and options.sign is not None:
        jwt = _reveal(options.user_jwt, "user_jwt")
        signature = options.sign(_required(nonce).encode())
        if inspect.isawaitable(signature):
            signature = await signature
        if not isinstance(signature, bytes):
            raise UsageError(f"sign must return bytes, not {type(signature).__name__}")
        return {"jwt": jwt, "sig": _base64(signature)}
    if options.nkey_seed_file is not None:
        seed = _read(Path(options.nkey_seed_file), "nkey_seed_file").strip()
        return _sign_with_seed(seed, nonce, "nkey_seed_file")
    if options.nkey_seed is not None:
        return _sign_with_seed(_reveal(options.nkey_seed, "nkey_seed"), nonce, "nkey_seed")
    if options.token is not None:
        return {"auth_token": _reveal(options.token, "token")}
    if options.user is not None:
        user = _reveal(options.user, "user")
        return {"user": user, "pass": _reveal(options.password or "", "password")}
    if server.user is not None:
        user = check_text(server.user, "the user in servers")
        if server.password is None:
            return {"auth_token": user}
        return {"user": user, "pass": check_text(server.password, "the password in servers")}
    return {}


def _reveal(secret: Secret, option: str) -> str:
    text = secret if isinstance(secret, str) else secret()
    if not isinstance(text, str):
        raise UsageError(f"{option} must return text, not {type(text).__name__}")
    return check_text(text, option)


def _read(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror
    except UnicodeDecodeError:
        reason = "it is not text"
    raise UsageError(f"{option}: cannot read {str(path)!r}: {reason}")


def _credentials(given: Credentials) -> str:
    """The text of the option `credentials`."""
    text = given() if callable(given) else given
    if isinstance(text, bytes):
        # Replaced, not refused: the sections themselves are ASCII.
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        raise UsageError(f"credentials must return text or bytes, not {type(text).__name__}")
    return text


def _sign_credentials(text: str, nonce: str, option: str, source: str) -> dict[str, str]:
    """Authenticate with the JWT and the seed of a `.creds` file."""
    sections = dict(_SECTION.findall(text))
    jwt, seed = sections.get("NATS USER JWT"), sections.get("USER NKEY SEED")
    if not jwt or not seed:
        raise UsageError(
            f"{option}: {source} has no NATS USER JWT and USER NKEY SEED sections",
            hint="Write it with `nsc generate creds`",
        )
    return {"jwt": jwt, **_sign_with_seed(seed, nonce, option, public_key=False)}


def _sign_with_seed(seed: str, nonce: str, option: str, *, public_key: bool = True) -> dict[str, str]:
    import nkeys  # noqa: PLC0415 - costs a few milliseconds and a native library; most users have no nkeys

    pair = None
    with suppress(Exception):
        pair = nkeys.from_seed(bytearray(seed.encode()))
    if pair is None:
        raise UsageError(f"{option}: not an nkey seed; the seed of a user starts with SU")
    try:
        fields = {"sig": _base64(pair.sign(_required(nonce).encode()))}
        if public_key:
            fields["nkey"] = bytes(pair.public_key).decode()
        return fields
    finally:
        pair.wipe()


def _required(nonce: str) -> str:
    if not nonce:
        raise AuthorizationError(
            "the server sent no nonce to sign", hint="It is not configured for nkeys or JWT authentication"
        )
    return nonce


def _base64(signature: bytes) -> str:
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
