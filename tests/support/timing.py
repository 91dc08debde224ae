"""Other waits of JetStream than the usual ones, for one context and what is made from it."""

from __future__ import annotations

from jetspark.jetstream.context import JetStream

__all__ = ["impatient", "set_timing"]


def set_timing(js: JetStream, **seconds: float) -> None:
    """Change fields of `Timing`. What exists already may have read the old ones."""
    js.api.timing = js.api.timing._replace(**seconds)


def impatient(js: JetStream) -> None:
    """Believe that a consumer is gone when the server does not know it: not only after seconds."""
    set_timing(js, consumer_missing=0.1, consumer_look_again=0.02)
