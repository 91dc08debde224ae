"""The common options of every command, and how to connect: flags, environment and context combined.

A flag takes precedence over the environment, and the environment over the context. Credentials are
taken as a whole from the first source that has any. Secrets come from the environment, a context, a file or
a prompt, never from a flag: every user of the machine can read the arguments of a process.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from jetspark.cli.args.parameters import option
from jetspark.cli.args.table import Options, setting
from jetspark.cli.args.units import duration
from jetspark.cli.ui.failure import Exit, Failure

if TYPE_CHECKING:
    from jetspark.core.contexts import Context

__all__ = ["COMMON", "Settings", "read_secret"]

_CONNECTION: Final = "Connection"
_GENERAL: Final = "General"


def _setting(kind: Any, *flags: str, panel: str = _CONNECTION, **more: Any) -> tuple[Any, object]:
    """A row of the table: a switch, or an option that is None unless it was given."""
    if kind is bool:
        return Annotated[bool, option(*flags, rich_help_panel=panel, **more)], False
    return setting(kind, *flags, rich_help_panel=panel, **more)


def _context_names(incomplete: str) -> list[str]:
    from jetspark.core.contexts import names  # noqa: PLC0415 - not needed by `jetspark --help`

    return [name for name in names() if name.startswith(incomplete)]


#: The options that every command has, by the names of the fields of `Settings`.
COMMON: Final[Options] = {
    "json": _setting(bool, "--json", "-j", panel=_GENERAL, help="Print JSON, with stable fields."),
    "trace": _setting(bool, "--trace", panel=_GENERAL, help="Print the protocol to stderr."),
    "timeout": _setting(duration, "--timeout", help="Timeout of a request (5s). [NATS_TIMEOUT]"),
    "server": _setting(
        str, "--server", "-s", metavar="URL", help="Server URLs, separated by commas. [NATS_URL]"
    ),
    "context": _setting(
        str,
        "--context",
        metavar="NAME",
        autocompletion=_context_names,
        help="Context of the nats CLI to use instead of the selected one. [NATS_CONTEXT]",
    ),
    "user": _setting(
        str,
        "--user",
        metavar="NAME",
        help="User name; the password comes from NATS_PASSWORD or a prompt. [NATS_USER]",
    ),
    "password_file": _setting(
        Path, "--password-file", metavar="FILE", help="File with the password of --user."
    ),
    "token_file": _setting(Path, "--token-file", metavar="FILE", help="File with a token. [NATS_TOKEN]"),
    "creds": _setting(Path, "--creds", metavar="FILE", help="Credentials file with a JWT. [NATS_CREDS]"),
    "nkey": _setting(Path, "--nkey", metavar="FILE", help="File with an nkey seed. [NATS_NKEY]"),
    "tlsca": _setting(Path, "--tlsca", metavar="FILE", help="Trusted CA certificates. [NATS_CA]"),
    "tlscert": _setting(Path, "--tlscert", metavar="FILE", help="Client certificate. [NATS_CERT]"),
    "tlskey": _setting(Path, "--tlskey", metavar="FILE", help="Key of the client certificate. [NATS_KEY]"),
    "tlsfirst": _setting(bool, "--tlsfirst", help="Start TLS before the server sends anything."),
    "js_domain": _setting(str, "--js-domain", metavar="NAME", help="JetStream domain. [NATS_JS_DOMAIN]"),
    "js_api_prefix": _setting(
        str,
        "--js-api-prefix",
        metavar="PREFIX",
        help="Subject prefix used in place of $JS.API. [NATS_JS_API_PREFIX]",
    ),
    "inbox_prefix": _setting(
        str,
        "--inbox-prefix",
        metavar="PREFIX",
        help="Subject prefix used in place of _INBOX. [NATS_INBOX_PREFIX]",
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The common options as they were given. `connect_options` adds the environment and the context."""

    json: bool = False
    trace: bool = False
    timeout: float | None = None
    server: str | None = None
    context: str | None = None
    user: str | None = None
    password_file: Path | None = None
    token_file: Path | None = None
    creds: Path | None = None
    nkey: Path | None = None
    tlsca: Path | None = None
    tlscert: Path | None = None
    tlskey: Path | None = None
    tlsfirst: bool = False
    js_domain: str | None = None
    js_api_prefix: str | None = None
    inbox_prefix: str | None = None

    def over(self, other: Settings) -> Settings:
        """These settings, and those of `other` where these have none."""
        given = {name: value for name in COMMON if (value := getattr(self, name))}
        return dataclasses.replace(other, **given)

    @property
    def seconds(self) -> float:
        """The timeout of a request."""
        if self.timeout:
            return self.timeout
        if text := os.environ.get("NATS_TIMEOUT"):
            try:
                return duration(text)
            except ValueError as error:
                raise Failure(f"NATS_TIMEOUT: {error}", code=Exit.USAGE) from None
        return 5.0

    def chosen_context(self) -> tuple[str | None, Context]:
        """The context in use and its name; an empty context if there is none. Raises `UsageError`."""
        from jetspark.core import contexts  # noqa: PLC0415 - not needed by `jetspark --help`

        name = self.context or os.environ.get("NATS_CONTEXT") or contexts.selected()
        return name, contexts.load(name) if name else contexts.Context()

    def connect_options(self, ask_password: Callable[[str], str] | None) -> dict[str, Any]:
        """The arguments of `jetspark.connect`, `servers` among them. Raises `Failure` and `UsageError`.

        `ask_password` asks for the password of a user; None without a terminal.
        """
        _, context = self.chosen_context()
        options = {"servers": "nats://127.0.0.1:4222", **self._combined(context)}
        if "user" in options and "password" not in options:
            options["password"] = self._password(options["user"], context, ask_password)
        own = {"connect_timeout": self.seconds, "request_timeout": self.seconds}
        return {name: value for name, value in options.items() if not name.startswith("jetstream_")} | own

    def jetstream_options(self) -> dict[str, Any]:
        """The arguments of `Connection.jetstream`."""
        options = self._combined(self.chosen_context()[1])
        return {
            "domain": options.get("jetstream_domain"),
            "api_prefix": options.get("jetstream_api_prefix"),
            "timeout": self.seconds,
        }

    def _combined(self, context: Context) -> dict[str, Any]:
        """The options of the flags, the environment and the context."""
        from jetspark.core.environment import combined, environment_options  # noqa: PLC0415 - as above

        return combined(self._flags(), environment_options(), context.connect_options())

    def _flags(self) -> dict[str, Any]:
        """The arguments of `jetspark.connect` that flags give."""
        from jetspark.core.paths import expanded  # noqa: PLC0415 - as above

        if self.server and "@" in self.server:
            raise Failure(
                "--server contains credentials, which every user of this machine can read",
                "Put the URL into NATS_URL, or use --user, --creds or --context",
                Exit.USAGE,
            )
        if self.password_file and not self.user:
            raise Failure("--password-file needs --user", code=Exit.USAGE)
        given: dict[str, Any] = {
            "servers": self.server,
            "credentials_file": self.creds and expanded(self.creds),
            "nkey_seed_file": self.nkey and expanded(self.nkey),
            "token": self.token_file and read_secret(self.token_file, "--token-file"),
            "user": self.user,
            "password": self.password_file and read_secret(self.password_file, "--password-file"),
            "tls_ca_file": self.tlsca and expanded(self.tlsca),
            "tls_cert_file": self.tlscert and expanded(self.tlscert),
            "tls_key_file": self.tlskey and expanded(self.tlskey),
            "tls_handshake_first": self.tlsfirst,
            "inbox_prefix": self.inbox_prefix,
            "jetstream_domain": self.js_domain,
            "jetstream_api_prefix": self.js_api_prefix,
        }
        return {name: value for name, value in given.items() if value}

    def _password(self, user: str, context: Context, ask_password: Callable[[str], str] | None) -> str:
        if password := os.environ.get("NATS_PASSWORD"):
            return password
        if context.user == user and context.password:
            return context.password
        return ask_password(user) if ask_password is not None else ""


def read_secret(path: Path, flag: str) -> str:
    """The text of the file that a flag names, without spaces around it. Raises `Failure`."""
    from jetspark.core.paths import expanded  # noqa: PLC0415 - not needed by `jetspark --help`

    try:
        return expanded(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        reason = error.strerror
    except UnicodeDecodeError:
        reason = "not valid UTF-8"
    # Not in the `except` block: the context of the error would hold the file.
    raise Failure(f"{flag}: cannot read {path}: {reason}", code=Exit.USAGE)
