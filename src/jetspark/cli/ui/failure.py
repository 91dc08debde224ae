"""What went wrong, as one line with a way out, and the exit code that says it to scripts.

The two tables are the whole policy. Hints of the library speak of Python; where the command line has a better
one it is here.
"""

from __future__ import annotations

import enum
import re
from typing import Final

from jetspark import errors
from jetspark.cli.ui.escape import on_a_line

__all__ = ["CONNECT", "Exit", "Failure", "describe"]


class Exit(enum.IntEnum):
    """The exit codes, as `docs/cli.md` documents them."""

    OK = 0
    #: The server refused, or the work failed.
    FAILED = 1
    #: The command line makes no sense, or an answer was needed and nobody could be asked.
    USAGE = 2
    #: No server could be reached.
    UNREACHABLE = 3
    #: There is no such stream, consumer, message or dead letter.
    NOT_FOUND = 4
    #: Wrong credentials, or the user may not do this.
    DENIED = 5
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


class Failure(Exception):
    """An end that is explained: what, what to do, and the exit code."""

    def __init__(self, message: str, hint: str | None = None, code: int = Exit.FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


_CREDENTIALS: Final = (
    "Check NATS_USER and NATS_PASSWORD, NATS_CREDS or NATS_NKEY, or the context; "
    "`jetspark doctor` looks closer"
)
_PERMISSIONS: Final = "The user needs this subject in its permissions, or use another --context"
#: What to do when no server answers.
CONNECT: Final = "Is nats-server running there? Say where with --server, NATS_URL or --context"

# The first class that fits decides. None leaves the hint to the error itself.
_TABLE: Final[tuple[tuple[type[errors.Error], Exit, str | None], ...]] = (
    (
        errors.StreamNotFound,
        Exit.NOT_FOUND,
        "`jetspark stream ls` shows what there is; check --js-domain, too",
    ),
    (errors.ConsumerNotFound, Exit.NOT_FOUND, "`jetspark consumer ls {stream}` shows what there is"),
    (
        errors.MessageNotFound,
        Exit.NOT_FOUND,
        "`jetspark stream info {stream}` shows its first and last sequence",
    ),
    (
        errors.NoStreamForSubject,
        Exit.NOT_FOUND,
        "Create one with `jetspark stream add`, or publish without JetStream: --core",
    ),
    (
        errors.StreamNameInUse,
        Exit.FAILED,
        "Change it with `jetspark stream edit {stream}`, or take another name",
    ),
    (
        errors.StreamSubjectOverlap,
        Exit.FAILED,
        "`jetspark stream ls --subject SUBJECT` tells which stream it is",
    ),
    (errors.ConsumerNameInUse, Exit.FAILED, "Delete it with `jetspark consumer rm`, or take another name"),
    (errors.InsufficientResources, Exit.FAILED, "`jetspark doctor` shows the limits"),
    (errors.AuthorizationError, Exit.DENIED, _CREDENTIALS),
    (errors.PermissionsViolation, Exit.DENIED, _PERMISSIONS),
    (errors.JetStreamNotEnabled, Exit.FAILED, None),
    (errors.ServerNotFound, Exit.FAILED, None),
    (errors.TLSError, Exit.UNREACHABLE, "Check --tlsca, --tlscert and --tlskey, and the certificate's name"),
    (errors.NoServersError, Exit.UNREACHABLE, CONNECT),
    (errors.ConnectionClosed, Exit.UNREACHABLE, None),
    (errors.ConnectionError, Exit.UNREACHABLE, CONNECT),
    (errors.UsageError, Exit.USAGE, None),
    (errors.Error, Exit.FAILED, None),
)

_ADVISORIES: Final = "`jetspark stream add ADVISORIES --subjects '$JS.EVENT.ADVISORY.>' --max-age 7d`"

# Names of the Python API that a user of the command line never wrote, and what stands for them.
_SPOKEN: Final = (
    (
        re.compile(r"\b(?:StreamConfig|ConsumerConfig)\.(\w+)=(.*?) (is|are|has|need|excludes|cannot)\b"),
        r"\1 \2 \3",
    ),
    (re.compile(r"\b(?:StreamConfig|ConsumerConfig)\."), ""),
    (re.compile(r"(?:js|stream)\.create_advisory_stream\(\)"), _ADVISORIES),
    (re.compile(r"follow=True"), "--follow"),
    (re.compile(r"allow_direct=True"), "`jetspark stream edit --allow-direct`"),
)


def describe(error: BaseException) -> tuple[str, int]:
    """The line for an error, and the exit code."""
    if isinstance(error, Failure):
        return _line(str(error), error.hint), error.code
    if isinstance(error, errors.PublishError) and isinstance(error.__cause__, errors.Error):
        line, code = describe(error.__cause__)
        return f"{error.failed:,} messages are not stored: {line}", code
    if isinstance(error, errors.Error):
        message = str(error.args[0]) if error.args else type(error).__name__
        for kind, code, own_hint in _TABLE:
            if isinstance(error, kind):
                hint = own_hint or error.hint
                if hint and "{stream}" in hint:
                    hint = hint.replace("{stream}", getattr(error, "stream", None) or "STREAM")
                return _line(message, hint), code
    if isinstance(error, OSError) and error.filename is not None:
        return _line(f"{error.filename}: {error.strerror}", None), Exit.FAILED
    return (
        _line(
            f"{type(error).__name__}: {error}",
            "This is a bug in jetspark. JETSPARK_TRACEBACK=1 shows where; please report it",
        ),
        Exit.FAILED,
    )


def _line(message: str, hint: str | None) -> str:
    text = message.rstrip(".")
    if hint:
        text += f" {hint}" if text.endswith(("?", "!")) else f". {hint}"
    for pattern, spoken in _SPOKEN:
        text = pattern.sub(spoken, text)
    return on_a_line(" ".join(text.split()))
