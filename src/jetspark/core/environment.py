"""Connection settings from the environment, in the variables of the `nats` CLI, and how sources combine.

For each option the first source that has it wins: arguments, then the environment, then a context.
Credentials are taken as a whole from the first source that has any.
"""

from __future__ import annotations

import os
from typing import Any, Final

from jetspark.core.options import WAYS_TO_AUTHENTICATE
from jetspark.core.paths import expanded

__all__ = ["combined", "environment_options"]

#: Variables with text, and variables with the path of a file.
_TEXT: Final = {
    "NATS_URL": "servers",
    "NATS_USER": "user",
    "NATS_TOKEN": "token",
    "NATS_INBOX_PREFIX": "inbox_prefix",
    "NATS_SOCKS_PROXY": "proxy",
    "NATS_JS_DOMAIN": "jetstream_domain",
    "NATS_JS_API_PREFIX": "jetstream_api_prefix",
}
_FILES: Final = {
    "NATS_CREDS": "credentials_file",
    "NATS_NKEY": "nkey_seed_file",
    "NATS_CA": "tls_ca_file",
    "NATS_CERT": "tls_cert_file",
    "NATS_KEY": "tls_key_file",
}
#: All options that belong to the credentials.
_CREDENTIALS: Final = frozenset({*WAYS_TO_AUTHENTICATE, "password", "sign"})


def environment_options() -> dict[str, Any]:
    """The arguments of `connect` that variables set; a password only with a user."""
    found: dict[str, Any] = {}
    for variable, option in _TEXT.items():
        if text := os.environ.get(variable):
            found[option] = text
    for variable, option in _FILES.items():
        if text := os.environ.get(variable):
            found[option] = expanded(text)
    if "user" in found and (password := os.environ.get("NATS_PASSWORD")):
        found["password"] = password
    return found


def combined(*sources: dict[str, Any]) -> dict[str, Any]:
    """The options of all sources. The first one that has an option wins."""
    options: dict[str, Any] = {}
    for source in sources:
        taken = _CREDENTIALS if _CREDENTIALS & options.keys() else frozenset()
        options.update({name: value for name, value in source.items() if name not in {*options, *taken}})
    return options
