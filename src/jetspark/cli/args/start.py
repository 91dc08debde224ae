"""Where reading starts: `all`, `new`, `last`, `subject`, a sequence, a time, or a duration back from now."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import typer

from jetspark.cli.args.parameters import option
from jetspark.cli.args.units import count, moment
from jetspark.jetstream.model.consumer import DeliverPolicy

__all__ = ["Deliver", "Start", "parse_start"]

_WORDS: Final = {
    "all": DeliverPolicy.ALL,
    "new": DeliverPolicy.NEW,
    "last": DeliverPolicy.LAST,
    "subject": DeliverPolicy.LAST_PER_SUBJECT,
    "last-per-subject": DeliverPolicy.LAST_PER_SUBJECT,
}


class Start(NamedTuple):
    """The three fields of a consumer configuration that say where it starts."""

    deliver_policy: DeliverPolicy = DeliverPolicy.ALL
    opt_start_seq: int | None = None
    opt_start_time: datetime | None = None


def parse_start(text: str) -> Start:
    """Parse a start position. Raises `typer.BadParameter`."""
    stripped = text.strip().lower()
    if stripped in _WORDS:
        return Start(_WORDS[stripped])
    try:
        if stripped.isdecimal():
            return Start(DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=count(stripped))
        return Start(DeliverPolicy.BY_START_TIME, opt_start_time=moment(text))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a start position; write {', '.join(_WORDS)}, a sequence, a time, or 1h for an "
            "hour ago"
        ) from None


Deliver: TypeAlias = Annotated[
    Any,
    option(
        "--deliver",
        metavar="START",
        parser=parse_start,
        autocompletion=lambda incomplete: [word for word in _WORDS if word.startswith(incomplete)],
        help="Start at: all, new, last, subject (the last of each subject), a sequence, a time, or 1h (ago).",
    ),
]
