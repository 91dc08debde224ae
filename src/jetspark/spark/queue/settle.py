"""For `foreachBatch`: terminate rows that cannot be handled, or return them to the consumer.

The query acknowledges a batch when Spark has committed it. A row that is terminated before that is not
delivered again, and the server publishes an advisory about it: it is a dead letter. A row that is returned
must not be acknowledged, so the query, which runs in another process, is asked to leave it out and to
return it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from pyspark.sql import DataFrame

from jetspark.errors import NoResponders, Timeout, UsageError
from jetspark.jetstream.context import JetStream
from jetspark.jetstream.message.delivered import nak_body, term_body
from jetspark.jetstream.retry import OUTAGE, retry
from jetspark.spark.connections import PLANNING_TIMEOUT, process_connection
from jetspark.spark.options import parse_options
from jetspark.spark.queue.consumers import ack_subject, settle
from jetspark.spark.queue.returns import read_answer, return_subject, show_return

__all__ = ["nak_rows", "term_rows"]

#: Messages of one request.
_PIECE: Final = 10_000

_Settling = Callable[[JetStream, str, list[int]], Awaitable[None]]


def term_rows(rows: DataFrame, options: Mapping[str, str], reason: str = "") -> int:
    """Terminate the messages of these rows: they are never delivered again. Returns how many.

    `rows` has the columns `stream` and `sequence`, `options` are those of the query. `reason` is in the
    server's advisory, and so in `deadLetters`. A work-queue or interest stream deletes terminated messages:
    publish them elsewhere first if they are still needed. Raises `UsageError` for options without
    `consumer`.
    """
    consumer, body = _consumer(options), term_body(reason)

    async def term(js: JetStream, stream: str, sequences: list[int]) -> None:
        await retry(partial(settle, js, ack_subject(stream, consumer), sequences, body), OUTAGE)

    return _settle(rows, options, term)


def nak_rows(rows: DataFrame, options: Mapping[str, str], delay: float | None = None) -> int:
    """Return the messages of these rows to the consumer: they are delivered again, to any worker, at once
    or after `delay` seconds. Returns how many.

    `rows` has the columns `stream` and `sequence`, `options` are those of the query, with `allowNak`. Raises
    `UsageError` if no batch of such a query has these messages.
    """
    consumer = _consumer(options)
    nak_body(delay)
    if not parse_options(options).allow_nak:
        raise UsageError(
            "nak_rows needs a query with the option allowNak", hint='Set .option("allowNak", "true") on both'
        )

    async def nak(js: JetStream, stream: str, sequences: list[int]) -> None:
        request = show_return(stream, sequences, delay)
        try:
            answer = await js.connection.request(return_subject(consumer), request, timeout=js.timeout)
        except (NoResponders, Timeout) as error:
            raise UsageError(
                f"no running query is a worker of consumer {consumer} and holds these messages of {stream}",
                hint="Call nak_rows in foreachBatch, with rows of the batch, and set option allowNak",
            ) from error
        if (returned := read_answer(answer.data)) < len(sequences):
            raise UsageError(
                f"{len(sequences) - returned} messages of stream {stream} are not in the batch that runs",
                hint="Call nak_rows with rows of the batch, and once for each",
            )

    return _settle(rows, options, nak)


def _consumer(options: Mapping[str, str]) -> str:
    consumer = parse_options(options).consumer
    if consumer is None:
        raise UsageError("missing option consumer", hint="Pass the options of the query")
    return consumer


def _settle(rows: DataFrame, options: Mapping[str, str], settling: _Settling) -> int:
    by_stream: dict[str, set[int]] = {}
    for row in rows.select("stream", "sequence").toLocalIterator():
        by_stream.setdefault(row.stream, set()).add(row.sequence)
    if by_stream:
        connect = parse_options(options).connection
        with process_connection(connect, retry_for=PLANNING_TIMEOUT) as connection:
            for stream, found in by_stream.items():
                sequences = sorted(found)
                for place in range(0, len(sequences), _PIECE):
                    connection.run(_run(settling, connection.js, stream, sequences[place : place + _PIECE]))
    return sum(map(len, by_stream.values()))


async def _run(settling: _Settling, js: JetStream, stream: str, sequences: list[int]) -> None:
    await settling(js, stream, sequences)
