"""Operators, accounts and users of NATS: nkeys, and the JWTs that they sign for each other.

The part of `nsc` that the tests need. The format is that of nats-io/jwt, version 2.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nkeys

__all__ = ["Identity", "Operator", "UserCredentials", "new_identity"]

_PREFIX = {
    "operator": nkeys.PREFIX_BYTE_OPERATOR,
    "account": nkeys.PREFIX_BYTE_ACCOUNT,
    "user": nkeys.PREFIX_BYTE_USER,
}


@dataclass(frozen=True)
class Identity:
    """An nkey: the public key and the secret seed."""

    public_key: str
    seed: str = field(repr=False)

    def sign(self, data: bytes) -> bytes:
        return bytes(nkeys.from_seed(bytearray(self.seed.encode())).sign(data))


def new_identity(kind: str = "user") -> Identity:
    """Create a key of an operator, an account or a user."""
    seed = bytes(nkeys.encode_seed(os.urandom(32), _PREFIX[kind]))
    return Identity(bytes(nkeys.from_seed(bytearray(seed)).public_key).decode(), seed.decode())


@dataclass(frozen=True)
class UserCredentials:
    """The credentials of a user."""

    identity: Identity
    jwt: str = field(repr=False)

    def write(self, path: Path) -> Path:
        """Write a `.creds` file like those of nsc, with mode 0600, replacing an old one."""
        text = (
            f"-----BEGIN NATS USER JWT-----\n{self.jwt}\n------END NATS USER JWT------\n\n"
            "************************* IMPORTANT *************************\n"
            "NKEY Seed printed below can be used to sign and prove identity.\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.identity.seed}\n------END USER NKEY SEED------\n"
        )
        path.touch(mode=0o600)
        path.write_text(text, encoding="ascii")
        return path


class Operator:
    """An operator with a system account, one account `account`, and the users that tests create.

    `tiers` gives the account JetStream, with these limits by tier.
    """

    def __init__(self, *, tiers: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self.operator = new_identity("operator")
        self.account, self.system = new_identity("account"), new_identity("account")
        limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
        self._operator_jwt = _jwt(
            self.operator, self.operator, "operator", {"system_account": self.system.public_key}
        )
        self._account_jwts = {
            account.public_key: _jwt(
                self.operator, account, "account", {"limits": {**limits, "wildcards": True, **more}}
            )
            for account, more in (
                (self.account, {} if tiers is None else {"tiered_limits": tiers}),
                (self.system, {}),
            )
        }

    @property
    def config(self) -> str:
        """Return server configuration that trusts this operator and contains the accounts."""
        preload = "\n".join(f"  {key}: {jwt}" for key, jwt in self._account_jwts.items())
        return (
            f"operator: {self._operator_jwt}\n"
            f"system_account: {self.system.public_key}\n"
            "resolver: MEMORY\n"
            f"resolver_preload: {{\n{preload}\n}}\n"
        )

    def user(self, *, expires: float | None = None, **claims: Any) -> UserCredentials:
        """Create a user of the account; `expires` is seconds since the epoch, `claims` go into `nats`."""
        identity = new_identity("user")
        limits = {"subs": -1, "data": -1, "payload": -1}
        return UserCredentials(
            identity, _jwt(self.account, identity, "user", {**limits, **claims}, expires=expires)
        )


def _jwt(
    issuer: Identity,
    subject: Identity,
    kind: str,
    nats: Mapping[str, Any],
    *,
    expires: float | None = None,
) -> str:
    claims = {
        "iat": int(time.time()),
        "iss": issuer.public_key,
        "name": kind,
        "sub": subject.public_key,
        "nats": {"type": kind, "version": 2, **nats},
    }
    if expires is not None:
        claims["exp"] = int(expires)
    digest = hashlib.new("sha512_256", json.dumps(claims).encode()).digest()
    claims["jti"] = base64.b32encode(digest).rstrip(b"=").decode()
    signed = f"{_part({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_part(claims)}"
    return f"{signed}.{_base64(issuer.sign(signed.encode()))}"


def _part(value: Mapping[str, Any]) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
