"""Which gaps in a stream are losses. Pure.

A stream's sequences have gaps that mean nothing: messages that were deleted one by one, or purged by subject.
They lie between messages that are still there. What goes missing at the head of a stream is another matter:
somebody who had not read it yet has lost it. Only a few streams lose their head as a matter of course.
"""

from __future__ import annotations

from jetspark.jetstream.model.info import StreamState
from jetspark.jetstream.model.stream import RetentionPolicy, StreamConfig

__all__ = [
    "DELETED",
    "OF_THE_WHOLE_STREAM",
    "RECREATED",
    "ROLLED_BACK",
    "cause_of_lost_head",
    "head_may_move",
]

DELETED = "the stream was deleted"
RECREATED = "the stream was deleted and created again"
ROLLED_BACK = "the stream ends before that: it was restored from an older state"
#: It is not the stream that it was; otherwise only its head is gone.
OF_THE_WHOLE_STREAM = frozenset({DELETED, RECREATED, ROLLED_BACK})


def head_may_move(config: StreamConfig, state: StreamState) -> bool:
    """Whether messages vanish from the head because that is what the stream is for.

    Acknowledged messages of a work queue do; so do those that newer ones of their subject replace, and those
    that were published with a time to live. When the stream can lose its head in another way too, or is
    empty, nobody can tell: then it counts as a loss.
    """
    if config.retention in (RetentionPolicy.WORKQUEUE, RetentionPolicy.INTEREST):
        return True
    if state.messages == 0 or _limits(config):
        return False
    return (config.max_msgs_per_subject or 0) > 0 or config.allow_msg_ttl


def cause_of_lost_head(config: StreamConfig, state: StreamState) -> str:
    """In words, why the sequences before the first message are gone, as far as it shows."""
    limits = _limits(config)
    if state.messages == 0:
        return f"the stream is empty; it was purged{f' or reached {limits}' if limits else ''}"
    if limits:
        return f"removed by {limits}, or purged; the stream begins at {state.first_seq} now"
    return f"purged; the stream begins at {state.first_seq} now"


def _limits(config: StreamConfig) -> str:
    """The limits that remove from the head, as the user wrote them."""
    limits = {
        "max_age": config.max_age,
        "max_msgs": config.max_msgs,
        "max_bytes": config.max_bytes,
    }
    return " or ".join(f"{name}={value}" for name, value in limits.items() if value and value > 0)
