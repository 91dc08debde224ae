"""How to connect: what flags, environment and context say together.

For each setting a flag wins over the environment, and that over the context. Credentials are taken whole
from the first of them that has any: one server wants one kind. Secrets come from the environment, a context,
a file or a prompt, never from the command line, where everybody on the machine could read them.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from jetspark.cli.args.units import duration
from jetspark.cli.ui.failure import Exit, Failure

if TYPE_CHECKING:
    from jetspark.cli.contexts import Context

__all__ = ["COMMON", "Settings"]

_CONNECTION: Final = "Connection"
_GENERAL: Final = "General"


def _option(*flags: str, help: str, panel: str = _CONNECTION, **more: Any) -> Any:
    return typer.Option(*flags, help=help, rich_help_panel=panel, show_default=False, **more)


def _duration(text: str) -> float:
    try:
        return duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _context_names(incomplete: str) -> list[str]:
    from jetspark.cli.contexts import names  # noqa: PLC0415 - `jetspark --help` needs none

    return [name for name in names() if name.startswith(incomplete)]


#: The options that every command has, by the names of the fields of `Settings`.
COMMON: Final[dict[str, tuple[Any, object]]] = {
    "json": (
        Annotated[bool, _option("--json", "-j", panel=_GENERAL, help="Print JSON, with stable fields.")],
        False,
    ),
    "trace": (
        Annotated[bool, _option("--trace", panel=_GENERAL, help="Show the protocol, on stderr.")],
        False,
    ),
    "timeout": (
        Annotated[
            float | None,
            _option(
                "--timeout",
                parser=_duration,
                metavar="DURATION",
                help="How long a call may take, 5s by default. [NATS_TIMEOUT]",
            ),
        ],
        None,
    ),
    "server": (
        Annotated[
            str | None, _option("--server", "-s", metavar="URL", help="Servers, with commas. [NATS_URL]")
        ],
        None,
    ),
    "context": (
        Annotated[
            str | None,
            _option(
                "--context",
                metavar="NAME",
                autocompletion=_context_names,
                help="A context of the nats CLI, instead of the selected one. [NATS_CONTEXT]",
            ),
        ],
        None,
    ),
    "user": (
        Annotated[
            str | None,
            _option(
                "--user", metavar="NAME", help="User; the password is NATS_PASSWORD, or asked. [NATS_USER]"
            ),
        ],
        None,
    ),
    "password_file": (
        Annotated[
            Path | None,
            _option("--password-file", metavar="FILE", help="A file with the password of --user."),
        ],
        None,
    ),
    "token_file": (
        Annotated[
            Path | None, _option("--token-file", metavar="FILE", help="A file with a token; or NATS_TOKEN.")
        ],
        None,
    ),
    "creds": (
        Annotated[
            Path | None,
            _option("--creds", metavar="FILE", help="JWT credentials, a .creds file. [NATS_CREDS]"),
        ],
        None,
    ),
    "nkey": (
        Annotated[Path | None, _option("--nkey", metavar="FILE", help="The seed of an nkey. [NATS_NKEY]")],
        None,
    ),
    "tlsca": (
        Annotated[
            Path | None, _option("--tlsca", metavar="FILE", help="Certificates that are trusted. [NATS_CA]")
        ],
        None,
    ),
    "tlscert": (
        Annotated[
            Path | None, _option("--tlscert", metavar="FILE", help="Certificate of the client. [NATS_CERT]")
        ],
        None,
    ),
    "tlskey": (
        Annotated[Path | None, _option("--tlskey", metavar="FILE", help="The key of it. [NATS_KEY]")],
        None,
    ),
    "tlsfirst": (
        Annotated[bool, _option("--tlsfirst", help="Encrypt before the server says anything.")],
        False,
    ),
    "js_domain": (
        Annotated[
            str | None, _option("--js-domain", metavar="NAME", help="JetStream domain. [NATS_JS_DOMAIN]")
        ],
        None,
    ),
    "js_api_prefix": (
        Annotated[
            str | None,
            _option("--js-api-prefix", metavar="PREFIX", help="What replaces $JS.API for this account."),
        ],
        None,
    ),
    "inbox_prefix": (
        Annotated[
            str | None,
            _option("--inbox-prefix", metavar="PREFIX", help="What replaces _INBOX for this account."),
        ],
        None,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The common options of one run, as they were given. `connect_options` finds out the rest."""

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
        """These settings, and those of `other` where these say nothing."""
        given = {name: value for name in COMMON if (value := getattr(self, name))}
        return dataclasses.replace(other, **given)

    @property
    def seconds(self) -> float:
        """How long a call may take."""
        if self.timeout:
            return self.timeout
        if text := os.environ.get("NATS_TIMEOUT"):
            try:
                return duration(text)
            except ValueError as error:
                raise Failure(f"NATS_TIMEOUT: {error}", code=Exit.USAGE) from None
        return 5.0

    def chosen_context(self) -> tuple[str | None, Context]:
        """The context that counts, and its name; an empty one when there is none."""
        from jetspark.cli import contexts  # noqa: PLC0415 - `jetspark --help` needs none

        name = self.context or os.environ.get("NATS_CONTEXT") or contexts.selected()
        return name, contexts.load(name) if name else contexts.Context()

    def connect_options(self, ask_password: Callable[[str], str] | None) -> dict[str, Any]:
        """The arguments of `jetspark.connect`, `servers` among them. Raises `Failure`.

        `ask_password` asks for the password of a user; None where nobody can be asked.
        """
        _, context = self.chosen_context()
        options: dict[str, Any] = {
            "servers": self._servers(context),
            "connect_timeout": self.seconds,
            "request_timeout": self.seconds,
            "tls_ca_file": _path(self.tlsca, "NATS_CA", context.ca),
            "tls_cert_file": _path(self.tlscert, "NATS_CERT", context.cert),
            "tls_key_file": _path(self.tlskey, "NATS_KEY", context.key),
            "tls_handshake_first": self.tlsfirst or context.tls_first,
            **self._credentials(context, ask_password),
        }
        if prefix := self.inbox_prefix or context.inbox_prefix:
            options["inbox_prefix"] = prefix
        return {name: value for name, value in options.items() if value is not None}

    def jetstream_options(self) -> dict[str, Any]:
        """The arguments of `Connection.jetstream`."""
        _, context = self.chosen_context()
        return {
            "domain": self.js_domain or os.environ.get("NATS_JS_DOMAIN") or context.jetstream_domain or None,
            "api_prefix": self.js_api_prefix or context.jetstream_api_prefix or None,
            "timeout": self.seconds,
        }

    def _servers(self, context: Context) -> str:
        if self.server:
            for url in self.server.split(","):
                if "@" in urlsplit(url if "://" in url else f"nats://{url}").netloc:
                    raise Failure(
                        "--server has credentials in it, which everybody on this machine can read",
                        "Give the URL with them as NATS_URL, or use --user, --creds or --context",
                        Exit.USAGE,
                    )
            return self.server
        return os.environ.get("NATS_URL") or context.url or "nats://127.0.0.1:4222"

    def _credentials(self, context: Context, ask_password: Callable[[str], str] | None) -> dict[str, Any]:
        """From the flags, else the environment, else the context."""
        environment = os.environ
        sources: tuple[dict[str, Any], ...] = (
            {
                "credentials_file": self.creds,
                "nkey_seed_file": self.nkey,
                "token": self.token_file and _secret(self.token_file, "--token-file"),
                "user": self.user,
                "password": self.password_file and _secret(self.password_file, "--password-file"),
            },
            {
                "credentials_file": environment.get("NATS_CREDS"),
                "nkey_seed_file": environment.get("NATS_NKEY"),
                "token": environment.get("NATS_TOKEN"),
                "user": environment.get("NATS_USER"),
            },
            {
                "credentials_file": context.creds,
                "nkey_seed_file": context.nkey,
                "token": context.token,
                "user": context.user,
                "password": context.password,
            },
        )
        for source in sources:
            found = {name: value for name, value in source.items() if value}
            if set(found) <= {"password"}:
                if found and source is sources[0]:
                    raise Failure("--password-file needs --user", code=Exit.USAGE)
                continue
            for name in ("credentials_file", "nkey_seed_file"):
                if name in found:
                    found[name] = Path(os.path.expandvars(found[name])).expanduser()
            if "user" in found and "password" not in found:
                found["password"] = self._password(found["user"], context, ask_password)
            return found
        return {}

    def _password(self, user: str, context: Context, ask_password: Callable[[str], str] | None) -> str:
        if password := os.environ.get("NATS_PASSWORD"):
            return password
        if context.user == user and context.password:
            return context.password
        return ask_password(user) if ask_password is not None else ""


def _path(flag: Path | None, variable: str, setting: str) -> Path | None:
    text = str(flag) if flag else os.environ.get(variable) or setting
    return Path(os.path.expandvars(text)).expanduser() if text else None


def _secret(path: Path, flag: str) -> str:
    try:
        return path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Failure(f"{flag}: cannot read {path}: {reason}", code=Exit.USAGE) from None
