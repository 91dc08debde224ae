"""Where reading starts: `all`, `new`, `last`, `subject`, a sequence, a time, or so long ago."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import typer

from jetspark.cli.args.parameters import option
from jetspark.cli.args.units import moment
from jetspark.jetstream.model.consumer import DeliverPolicy

__all__ = ["Deliver", "Position", "position"]

_WORDS: Final = {
    "all": DeliverPolicy.ALL,
    "new": DeliverPolicy.NEW,
    "last": DeliverPolicy.LAST,
    "subject": DeliverPolicy.LAST_PER_SUBJECT,
    "last-per-subject": DeliverPolicy.LAST_PER_SUBJECT,
}


class Position(NamedTuple):
    """The three fields of a consumer that say where it starts."""

    deliver_policy: DeliverPolicy = DeliverPolicy.ALL
    opt_start_seq: int | None = None
    opt_start_time: datetime | None = None


def position(text: str) -> Position:
    """Read a position. Raises `typer.BadParameter`."""
    stripped = text.strip().lower()
    if stripped in _WORDS:
        return Position(_WORDS[stripped])
    if stripped.isdecimal():
        return Position(DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=int(stripped))
    try:
        return Position(DeliverPolicy.BY_START_TIME, opt_start_time=moment(text))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is none of {', '.join(_WORDS)}, a sequence, a time, or how long ago, like 1h"
        ) from None


Deliver: TypeAlias = Annotated[
    Any,
    option(
        "--deliver",
        metavar="START",
        parser=position,
        autocompletion=lambda incomplete: [word for word in _WORDS if word.startswith(incomplete)],
        help="Where to start: all, new, last, subject (the last of each), a sequence, 1h (ago) or a time.",
    ),
]
