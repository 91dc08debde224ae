"""Errors as one line with a hint, and the exit code for scripts.

The two tables are the whole policy: the exit code and hint for each class of error, and flags in place of the
Python names in the library's texts.
"""

from __future__ import annotations

import enum
import importlib.util
import re
from collections.abc import Callable
from typing import Final

from jetspark import errors
from jetspark.cli.ui.escape import escape_line
from jetspark.cli.ui.streams import STDOUT

__all__ = ["CONNECT", "Exit", "Failure", "describe", "require"]


class Exit(enum.IntEnum):
    """The exit codes, documented in `docs/cli.md`."""

    OK = 0
    #: The server refused the request, or the work failed.
    FAILED = 1
    #: Invalid arguments, or a confirmation was needed without a terminal.
    USAGE = 2
    #: No server is reachable.
    UNREACHABLE = 3
    #: The stream, consumer, message, dead letter, bucket, key or object does not exist.
    NOT_FOUND = 4
    #: Wrong credentials or missing permissions.
    DENIED = 5
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


class Failure(Exception):
    """Ends a command: the message, a hint what to do, and the exit code."""

    def __init__(self, message: str, hint: str | None = None, code: int = Exit.FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


_CREDENTIALS: Final = (
    "Check NATS_USER and NATS_PASSWORD, NATS_CREDS or NATS_NKEY, or the context; "
    "`jetspark doctor` checks further"
)
_PERMISSIONS: Final = "Add this subject to the permissions of the user, or use another --context"
#: The hint when no server answers.
CONNECT: Final = "Is nats-server running there? Set its address with --server, NATS_URL or --context"

# The first matching class decides. None keeps the hint of the error.
_TABLE: Final[tuple[tuple[type[errors.Error], Exit, str | None], ...]] = (
    (
        errors.BucketNotFound,
        Exit.NOT_FOUND,
        "`jetspark kv ls` and `jetspark object ls` list the buckets; check --js-domain, too",
    ),
    (errors.KeyNotFound, Exit.NOT_FOUND, None),
    (errors.ObjectNotFound, Exit.NOT_FOUND, None),
    (errors.BucketExists, Exit.FAILED, None),
    (errors.KeyExists, Exit.FAILED, "Use `jetspark kv update` with its revision, or `jetspark kv put`"),
    (errors.WrongRevision, Exit.FAILED, "`jetspark kv get` shows its revision"),
    (errors.StreamNotFound, Exit.NOT_FOUND, "`jetspark stream ls` lists the streams; check --js-domain, too"),
    (errors.ConsumerNotFound, Exit.NOT_FOUND, "`jetspark consumer ls {stream}` lists the consumers"),
    (
        errors.MessageNotFound,
        Exit.NOT_FOUND,
        "`jetspark stream info {stream}` shows the first and last sequence",
    ),
    (
        errors.NoStreamForSubject,
        Exit.NOT_FOUND,
        "Create one with `jetspark stream add`, or publish without JetStream with --core",
    ),
    (
        errors.StreamNameInUse,
        Exit.FAILED,
        "Change it with `jetspark stream edit {stream}`, or choose another name",
    ),
    (
        errors.StreamSubjectOverlap,
        Exit.FAILED,
        "`jetspark stream ls --subject SUBJECT` finds the other stream",
    ),
    (errors.ConsumerNameInUse, Exit.FAILED, "Delete it with `jetspark consumer rm`, or choose another name"),
    (errors.InsufficientResources, Exit.FAILED, "`jetspark doctor` shows the limits"),
    (errors.AuthorizationError, Exit.DENIED, _CREDENTIALS),
    (errors.PermissionsViolation, Exit.DENIED, _PERMISSIONS),
    (errors.JetStreamNotEnabled, Exit.FAILED, None),
    (errors.ServerNotFound, Exit.FAILED, None),
    (
        errors.TLSError,
        Exit.UNREACHABLE,
        "Check --tlsca, --tlscert and --tlskey, and the host name in the certificate",
    ),
    (errors.NoServersError, Exit.UNREACHABLE, CONNECT),
    (errors.ConnectionClosed, Exit.UNREACHABLE, None),
    (errors.ConnectionError, Exit.UNREACHABLE, CONNECT),
    (errors.UsageError, Exit.USAGE, None),
    (errors.Error, Exit.FAILED, None),
)

_ADVISORIES: Final = "`jetspark stream add ADVISORIES --subjects '$JS.EVENT.ADVISORY.>' --max-age 7d`"

_CONFIG: Final = "(?:StreamConfig|ConsumerConfig|KeyValueConfig|ObjectStoreConfig|ObjectMeta)"

# Names of the Python API, which a user of the command line does not know, and their replacements.
_REPLACEMENTS: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (
        re.compile(rf"\b{_CONFIG}\.(\w+)=(.*?) (is|are|has|need|excludes|cannot)\b"),
        r"\1 \2 \3",
    ),
    (re.compile(rf"\b{_CONFIG}\."), ""),
    # What a flag was set to: without a value for a switch, with commas for a list.
    (re.compile(r"(--[\w-]+)=True\b"), r"\1"),
    (re.compile(r"(--[\w-]+)=(?=[\w'-])"), r"\1 "),
    (re.compile(r"(--[\w-]+)=\[(.*?)\]"), lambda found: f"{found[1]} {found[2].replace(', ', ',')}"),
    (re.compile(r"\bfilter_subjects?\b"), "subject filter"),
    (re.compile(r"(?:js|stream)\.create_advisory_stream\(\)"), _ADVISORIES),
    (re.compile(r"follow=True"), "--follow"),
    (
        re.compile(r"[Uu]pdate (the stream|it) with allow_(direct|msg_ttl|atomic)=True"),
        lambda found: f"Update {found[1]} with `jetspark stream edit --allow-{found[2].replace('_', '-')}`",
    ),
    (re.compile(r"(?<![-\w])([a-z]+_[a-z_]+)=True\b"), r"the setting \1"),
    (re.compile(r"\back_policy='(\w+)'"), r"--ack \1"),
    (re.compile(r"\bnum_replicas\b"), "--replicas"),
    (re.compile(r"\bmax_msg_size\b"), "--max-msg-size"),
    (re.compile(r"js\.create_stream\(\.\.\.\)"), "`jetspark stream add`"),
    (re.compile(r"`domain`"), "--js-domain"),
    (re.compile(r"\bdomain and api_prefix\b"), "--js-domain and --js-api-prefix"),
    (re.compile(r"\btls_ca_file\b"), "--tlsca"),
    (re.compile(r"\btls_cert_file\b"), "--tlscert"),
    (re.compile(r"\btls_key_file\b"), "--tlskey"),
    (
        re.compile(r"Update it with (?:limit_marker_ttl|--marker-ttl)"),
        "Update it with `jetspark kv edit --marker-ttl`",
    ),
    (re.compile(r"\bdurable_name\b"), "name"),
    (re.compile(r"Use js\.subscribe\(\.\.\.\)"), "Read that subject with `jetspark sub`"),
    (re.compile(r"js\.update_key_value\(\.\.\.\) or js\.create_or\w+\(\.\.\.\)"), "`jetspark kv edit`"),
    (re.compile(r"Use js\.update_object_store\(\.\.\.\), or"), "Choose"),
    (re.compile(r"\. With codec=EscapedKeys\(\) any text is a key"), ""),
    (re.compile(r"\bmax_waiting\b"), "--max-waiting"),
    (re.compile(r"With a msg_id\b"), "With --msg-id"),
    (re.compile(r"\binbox_prefix\b"), "--inbox-prefix"),
)


def require(module: str, user: str, extra: str) -> None:
    """Raise `Failure` unless a package of an optional dependency is installed."""
    if importlib.util.find_spec(module) is None:
        raise Failure(f"{user} needs {module}", f"Install it with `pip install 'jetspark[{extra}]'`")


def describe(error: BaseException) -> tuple[str, int]:
    """The line that is printed for an error, and the exit code."""
    if isinstance(error, Failure):
        return _line(str(error), error.hint), error.code
    if isinstance(error, errors.PublishError) and isinstance(error.__cause__, errors.Error):
        line, code = describe(error.__cause__)
        what = "1 message was" if error.failed == 1 else f"{error.failed:,} messages were"
        return f"{what} not stored: {line}", code
    if isinstance(error, errors.Error):
        message = str(error.args[0]) if error.args else type(error).__name__
        for kind, code, own_hint in _TABLE:
            if isinstance(error, kind):
                hint = own_hint or error.hint
                if hint and "{stream}" in hint:
                    hint = hint.replace("{stream}", getattr(error, "stream", None) or "STREAM")
                return _line(message, hint), code
    if isinstance(error, OSError) and error.filename == STDOUT:
        return _line(f"cannot write to stdout: {error.strerror}", None), Exit.FAILED
    if isinstance(error, OSError) and error.filename is not None:
        return _line(f"{error.filename}: {error.strerror}", None), Exit.FAILED
    return (
        _line(
            f"{type(error).__name__}: {error}",
            "This is a bug in jetspark. JETSPARK_TRACEBACK=1 shows the traceback; please report it",
        ),
        Exit.FAILED,
    )


def _line(message: str, hint: str | None) -> str:
    text = message.rstrip(".")
    if hint:
        text += f" {hint}" if text.endswith(("?", "!")) else f". {hint}"
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return escape_line(" ".join(text.split()))
