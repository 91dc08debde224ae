"""Messages that `foreachBatch` returns to the consumer, through the query that holds them. Without Spark."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.errors import RemoteProtocolError
from jetspark.jetstream.context import JetStream
from jetspark.spark.queue.returns import read_answer, read_return, return_subject, show_return
from tests.fuzz.mutate import mutate
from tests.spark.queue.support import Workers, as_stored, make, messages, pending, stored
from tests.support.cases import for_each


async def ask(js: JetStream, stream: str, sequences: list[int], delay: float | None = None) -> int:
    request = show_return(stream, sequences, delay)
    return read_answer((await js.connection.request(return_subject("worker"), request, timeout=30)).data)


async def test_a_returned_message_is_not_acknowledged_and_delivered_again(
    js: JetStream, workers: Workers
) -> None:
    stream = await make(js, 4)
    # Another query of the same consumer hears the request too, and does not hold the messages.
    other, worker = workers(stream, allowNak="true"), workers(stream, allowNak="true")
    batch = await worker.take(await worker.begin())
    await other.hold(await other.begin())
    assert await ask(js, stream, [2, 3, 99]) == 2
    again = await worker.take(batch)
    assert messages(again, stream) == {2: 2, 3: 2}
    assert await worker.take(again) == again
    assert await stored(js, stream) == 0


async def test_a_restarted_driver_does_not_acknowledge_what_may_have_been_returned(
    js: JetStream, workers: Workers
) -> None:
    stream = await make(js, 3)
    killed = workers(stream, allowNak="true")
    batch = await killed.take(await killed.begin())
    assert await ask(js, stream, [2]) == 1
    await killed.close()
    restarted = workers(stream, allowNak="true")
    again = await restarted.take(as_stored(batch))
    assert messages(again, stream) == {2: 2}
    assert await pending(js, stream) == (0, 3)


@for_each(
    "data",
    [
        b"",
        b"{}",
        b"[" * 10_000,
        b'{"stream": "A", "sequences": "x"}',
        b'{"stream": "A", "sequences": "1-99999999999"}',
        b'{"stream": "A", "sequences": "1", "delay": -1}',
        b'{"stream": 5, "sequences": "1"}',
    ],
)
def test_any_client_may_send_nonsense(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_return(data)


@given(st.integers(0, 2**32))
def test_mutated_requests_are_read_or_refused(seed: int) -> None:
    random = Random(seed)
    with suppress(RemoteProtocolError):
        stream, sequences, body = read_return(mutate(random, show_return("A", [1, 2, 5], 2.0)))
        assert isinstance(stream, str)
        assert sequences == sorted(set(sequences))
        assert body.startswith(b"-NAK")
    with suppress(RemoteProtocolError):
        read_answer(mutate(random, msgspec.json.encode({"returned": 3})))


def test_a_request_survives_its_text() -> None:
    assert read_return(show_return("A", [1, 2, 5], None)) == ("A", [1, 2, 5], b"-NAK")
    assert read_return(show_return("A", [1], 2.0)) == ("A", [1], b'-NAK {"delay": 2000000000}')
    assert read_answer(msgspec.json.encode({"returned": 3})) == 3
