"""The waits of JetStream that are no options of calls. Tests give an `API` shorter or longer ones.

`retry.py` has the deadline of an outage and the usual waits between attempts.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Timing"]


class Timing(NamedTuple):
    """The waits of everything that uses one `API`, in seconds. A back-off doubles up to its limit."""

    #: Without an answer, before a request that may be repeated is repeated.
    silence: float = 5.0

    # --- a consumer that does not answer: `manage/presence.py`

    #: For which the server must report it as missing.
    consumer_missing: float = 2.0
    #: Between two lookups.
    consumer_look_again: float = 1.0
    #: For the answer to a lookup: without a leader there is none.
    consumer_lookup: float = 1.0
    #: After which an answer that it is missing counts no longer.
    consumer_memory: float = 10.0

    # --- a stream that is missing, or shorter than before: `read/ranges.py`

    #: For which the server must report that.
    stream_missing: float = 5.0
    #: Between two lookups.
    stream_look_again: float = 0.5

    # --- pull requests: `pull/`

    #: Before the next request after a refusal, and while the consumer has no leader.
    pull_back_off: float = 0.25
    #: The limit of that after refusals.
    refused_back_off_limit: float = 4.0
    #: The limit of that without a leader.
    election_back_off_limit: float = 1.0
    #: Of silence after which a request counts as lost in an election.
    request_lost: float = 0.8
    #: For the status of an expired request of a fetch, after it should have come.
    fetch_grace: float = 0.5

    # --- ordered consumers, and what reads through them: `ordered/`, `kv/feed.py`, `read/ranges.py`

    #: Before the next consumer is created when the last one delivered nothing.
    chain_back_off: float = 1.0
    chain_back_off_limit: float = 10.0
    #: In which deleting a consumer is tried again. After that the server deletes it by itself.
    chain_delete: float = 60.0
    #: For one try of that: a killed leader does not answer.
    chain_delete_try: float = 4.0
    #: Between two tries.
    chain_delete_back_off: float = 0.5
    chain_delete_back_off_limit: float = 4.0
    #: Before a fetch tries the next consumer.
    ordered_fetch_back_off: float = 0.25
    #: By which a fetch may exceed its deadline.
    ordered_fetch_grace: float = 0.75
    #: Without a message, before the leader is asked whether any is left to read.
    reading_silence: float = 1.0
