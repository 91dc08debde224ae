"""Which gaps in a stream are losses. Pure.

Gaps between stored messages are not losses: those messages were deleted one by one, or purged by subject.
Messages that vanish from the head of a stream are lost for a reader that had not read them yet, unless the
stream removes its head by design.
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
#: Causes that concern the whole stream; any other cause concerns its head.
OF_THE_WHOLE_STREAM = frozenset({DELETED, RECREATED, ROLLED_BACK})


def head_may_move(config: StreamConfig, state: StreamState) -> bool:
    """Whether the stream removes messages from its head by design.

    A work queue removes acknowledged messages. Other streams replace messages by newer ones of their subject,
    or expire messages published with a time to live. If the stream has other limits too, or is empty, the
    cause cannot be known: then it counts as a loss.
    """
    if config.retention in (RetentionPolicy.WORKQUEUE, RetentionPolicy.INTEREST):
        return True
    if state.messages == 0 or _limits(config):
        return False
    return (config.max_msgs_per_subject or 0) > 0 or config.allow_msg_ttl


def cause_of_lost_head(config: StreamConfig, state: StreamState) -> str:
    """Why the sequences before the first message were removed, as far as the configuration shows."""
    limits = _limits(config)
    if state.messages == 0:
        return f"the stream is empty; it was purged{f' or reached {limits}' if limits else ''}"
    if limits:
        return f"removed by {limits}, or purged; the stream begins at {state.first_seq} now"
    return f"purged; the stream begins at {state.first_seq} now"


def _limits(config: StreamConfig) -> str:
    """The limits that remove from the head, as the user wrote them."""
    limits = {"max_age": config.max_age, "max_msgs": config.max_msgs, "max_bytes": config.max_bytes}
    return " or ".join(f"{name}={value}" for name, value in limits.items() if value and value > 0)
