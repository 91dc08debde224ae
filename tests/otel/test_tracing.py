"""Traces from a publisher through a consumer, with asyncio."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, StatusCode

import jetspark
from jetspark import ConsumerConfig, JetStreamMsg, Msg, Stream, UsageError, otel
from jetspark.server import Server
from tests.otel.support import Spans, attributes, context_of, linked, parent
from tests.support.untyped import untyped

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_a_trace_goes_from_the_publisher_through_the_handler_to_the_acknowledgement(
    nc: jetspark.Connection, stream: Stream, spans: Spans, shared_server: Server
) -> None:
    js = nc.jetstream()
    consumer = await js.create_consumer(stream.name, ConsumerConfig(durable_name="worker"))
    await js.publish(f"{stream.name}.new", b"four", msg_id="a1", headers={"Own": "kept"})
    inside: list[trace.SpanContext] = []

    async def handle(message: JetStreamMsg) -> None:
        inside.append(trace.get_current_span().get_span_context())
        assert message.headers["Own"] == "kept"
        message.ack()

    async with await consumer.consume(handle):
        await spans.wait("process")
    publish, process, ack = spans.one("publish"), spans.one("process"), spans.one("ack")
    assert {context_of(each).trace_id for each in (publish, process, ack)} == {context_of(publish).trace_id}
    assert (parent(publish), parent(process), parent(ack)) == (
        None,
        context_of(publish).span_id,
        context_of(process).span_id,
    )
    assert inside == [context_of(process)]
    assert linked(ack) == [context_of(publish).span_id]
    assert (publish.kind, process.kind, ack.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.CLIENT)
    assert [each.name for each in (publish, process, ack)] == [
        f"{operation} {stream.name}.new" for operation in ("publish", "process", "ack")
    ]
    common = {"system": "nats", "destination.name": f"{stream.name}.new"}
    message = {"message.id": "a1", "message.body.size": 4}
    group = {"consumer.group.name": "worker"}
    operation = {"operation.name": "publish", "operation.type": "send"}
    assert attributes(publish) == {**common, **message, **operation}
    operation = {"operation.name": "process", "operation.type": "process"}
    assert attributes(process) == {**common, **message, **group, **operation}
    operation = {"operation.name": "ack", "operation.type": "settle"}
    assert attributes(ack) == {**common, **message, **group, **operation}
    for each in (publish, process, ack):
        assert attributes(each, "server.") == {"address": "127.0.0.1", "port": shared_server.port}
    assert attributes(publish, "jetspark.") == {"stream": stream.name, "sequence": 1}
    assert attributes(process, "jetspark.") == {"stream": stream.name, "sequence": 1, "deliveries": 1}


async def test_a_handler_that_fails_fails_its_span_and_the_message_goes_back(
    nc: jetspark.Connection, stream: Stream, spans: Spans
) -> None:
    js = nc.jetstream()
    consumer = await js.create_consumer(stream.name, ConsumerConfig(name="worker"))
    publish = await js.publish(f"{stream.name}.new")
    assert publish.sequence == 1

    def handle(message: JetStreamMsg) -> None:
        if message.metadata.num_delivered == 1:
            raise ValueError("not today")
        message.term("never")

    async with await consumer.consume(handle, on_error=lambda error: None):
        await spans.wait("term")
    failed = spans.named("process")[0]
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "not today")
    assert attributes(failed, "error.") == {"type": "ValueError"}
    assert [event.name for event in failed.events] == ["exception"]
    assert attributes(spans.named("nak")[0])["operation.name"] == "nak"
    traces = {context_of(span).trace_id for span in spans.all()}
    assert traces == {context_of(spans.one("publish")).trace_id}


async def test_fetched_messages_are_processed_in_spans_and_settled_in_every_way(
    nc: jetspark.Connection, stream: Stream, spans: Spans
) -> None:
    js = nc.jetstream()
    consumer = await js.create_consumer(stream.name, ConsumerConfig(name="worker"))
    for number in range(6):
        await js.publish(f"{stream.name}.{number}")
    published = [context_of(span).span_id for span in spans.named("publish")]
    batch = await consumer.fetch(4)
    for message in batch[:2]:
        with otel.process(message):
            await message.ack_sync()
    await batch[2].nak(delay=3600)
    await batch[3].in_progress()
    following = await batch[3].ack_next()
    assert following is not None
    assert following.metadata.sequence.stream == 5
    await following.ack_sync()
    await following.ack()  # It is settled, so there is nothing to trace.
    assert [parent(span) for span in spans.named("process")] == published[:2]
    process = [context_of(span).span_id for span in spans.named("process")]
    # Outside of a process span, the parent is the span that published the message.
    assert [parent(span) for span in spans.named("ack")] == [*process, published[3], published[4]]
    assert [parent(span) for span in spans.named("nak")] == [published[2]]
    assert (await js.consumer_info(stream.name, "worker")).num_ack_pending == 1


async def test_a_batch_is_processed_and_acknowledged_in_one_span_with_links(
    nc: jetspark.Connection, stream: Stream, spans: Spans
) -> None:
    js = nc.jetstream()
    async with js.publisher() as publisher:
        await publisher.send(f"{stream.name}.1", b"1")
        publisher.publish(f"{stream.name}.2", b"2", msg_id="two", headers={"Own": "kept"})
    published = [context_of(span).span_id for span in spans.named("publish")]
    assert [attributes(span, "jetspark.")["sequence"] for span in spans.named("publish")] == [1, 2]
    consumer = await js.create_consumer(stream.name, ConsumerConfig(name="worker"))
    batch = await consumer.fetch(2)
    with otel.process(batch):
        await batch.ack()
    with otel.process(await consumer.fetch_no_wait(2)) as nothing:
        assert not nothing.is_recording()
    for span in (spans.one("process"), spans.one("ack")):
        assert linked(span) == published
        assert attributes(span)["batch.message_count"] == 2
        assert "message.id" not in attributes(span)
    assert parent(spans.one("process")) is None
    assert parent(spans.one("ack")) == context_of(spans.one("process")).span_id


async def test_an_atomic_batch_has_a_span_for_each_message_and_one_for_the_commit(
    nc: jetspark.Connection, stream: Stream, spans: Spans
) -> None:
    async with nc.jetstream().atomic_batch() as batch:
        batch.add(f"{stream.name}.1", b"1", msg_id="one")
        batch.add(f"{stream.name}.2", b"2")
    created = [context_of(span).span_id for span in spans.named("create")]
    commit = spans.one("publish")
    assert (commit.kind, linked(commit)) == (SpanKind.CLIENT, created)
    assert attributes(commit)["batch.message_count"] == 2
    stored = [await stream.get_message(sequence) for sequence in (1, 2)]
    assert [int(each.headers["traceparent"].split("-")[2], 16) for each in stored] == created


async def test_the_current_span_is_the_parent_and_its_baggage_goes_along(
    nc: jetspark.Connection, provider: TracerProvider, name: str, spans: Spans
) -> None:
    found: asyncio.Queue[tuple[Msg, object]] = asyncio.Queue()

    def callback(message: Msg) -> None:
        found.put_nowait((message, baggage.get_baggage("tenant")))
        if message.reply:
            message.respond(b"here")

    await nc.subscribe(f"{name}.>", queue="group", callback=callback)
    token = context.attach(baggage.set_baggage("tenant", "a b"))
    with provider.get_tracer("test").start_as_current_span("outer") as outer:
        await nc.publish(f"{name}.1", b"1", headers={"Traceparent": PARENT, "Own": ["a", "b"]})
        answer = await nc.request(f"{name}.2", b"2")
    context.detach(token)
    assert answer.data == b"here"
    message, carried = await found.get()
    assert carried == "a b"
    publish = next(span for span in spans.named("publish") if span.name == f"publish {name}.1")
    assert parent(publish) == outer.get_span_context().span_id
    # A context among the headers, as of a message that is passed on, gives way to the current one.
    assert len(message.headers.get_all("traceparent")) == 1
    assert int(message.headers["traceparent"].split("-")[2], 16) == context_of(publish).span_id
    assert message.headers.get_all("Own") == ["a", "b"]
    process = (await spans.wait("process", 2))[0]
    assert attributes(process)["consumer.group.name"] == "group"
    response = next(span for span in spans.named("publish") if span.name == "publish (temporary)")
    assert attributes(response)["destination.temporary"] is True
    request = spans.one("request")
    assert context_of(response).trace_id == context_of(request).trace_id
    assert attributes(request)["operation.type"] == "send"


@pytest.mark.parametrize("ordered", [False, True])
async def test_push_subscriptions_run_their_callbacks_in_spans(
    nc: jetspark.Connection, stream: Stream, spans: Spans, ordered: bool
) -> None:
    js = nc.jetstream()
    await js.publish(f"{stream.name}.1")
    await js.subscribe(f"{stream.name}.>", callback=lambda message: None, ordered=ordered)
    await spans.wait("process")
    published = context_of(spans.one("publish")).span_id
    assert parent(spans.one("process")) == published
    if not ordered:  # It is acknowledged after the callback.
        (ack,) = await spans.wait("ack")
        assert parent(ack) == published


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": "00-" + "0" * 32 + "-" + "1" * 16 + "-01"},
        {"traceparent": "zz"},
        {"traceparent": ["x" * 20_000, PARENT]},
        {"traceparent": PARENT + "\x7f\x85"},
        {"traceparent": "é" * 55},
        {"tracestate": "a=b", "baggage": "k=v"},
        {"traceparent": "ff" + PARENT[2:]},
        {"traceparent": "", "tracestate": ",,,=;" * 1000},
    ],
)
async def test_headers_that_hold_no_context_are_ignored(
    headers: dict[str, str | list[str]],
    plain: jetspark.Connection,
    nc: jetspark.Connection,
    stream: Stream,
    spans: Spans,
) -> None:
    await plain.jetstream().publish(f"{stream.name}.1", headers=headers)
    consumer = await nc.jetstream().create_consumer(stream.name, ConsumerConfig(name="worker"))
    (message,) = await consumer.fetch(1)
    with otel.process(message):
        await nc.publish(f"{stream.name}.2")
        await message.ack_sync()
    assert parent(spans.one("process")) is None
    assert spans.one("process").status.status_code is StatusCode.UNSET
    assert parent(spans.one("publish")) == context_of(spans.one("process")).span_id


async def test_hostile_baggage_and_state_break_nothing_that_a_handler_publishes(
    plain: jetspark.Connection, nc: jetspark.Connection, stream: Stream, spans: Spans
) -> None:
    hostile = {
        "traceparent": PARENT,
        "tracestate": "a=1,b=\x7f",
        "baggage": "a=%0d%0aNats-Rollup: all,%0d%0ab=1,c=%ED%A0%80,d=\udcff",
    }
    await plain.jetstream().publish(f"{stream.name}.1", headers=hostile)
    js = nc.jetstream()
    consumer = await js.create_consumer(stream.name, ConsumerConfig(name="worker"))
    (message,) = await consumer.fetch(1)
    with otel.process(message):
        await js.publish(f"{stream.name}.2")
    assert f"{context_of(spans.one('process')).trace_id:032x}" == PARENT.split("-")[1]
    copy = await stream.get_message(2)
    assert {name.lower() for name in copy.headers} <= {"traceparent", "tracestate", "baggage"}


async def test_a_publish_that_fails_has_the_error_in_its_span(
    nc: jetspark.Connection, stream: Stream, spans: Spans
) -> None:
    js = nc.jetstream()
    with pytest.raises(jetspark.WrongLastSequence):
        await js.publish(f"{stream.name}.1", expected_last_sequence=7)
    with pytest.raises(jetspark.PublishError):
        async with js.publisher() as publisher:
            publisher.publish(f"{stream.name}.1", expected_last_sequence=7)
    publisher = js.publisher()
    with pytest.raises(UsageError):
        publisher.publish("not a subject")
    await publisher.close()
    kinds = [attributes(span, "error.")["type"] for span in spans.named("publish")]
    expected = "jetspark.errors.WrongLastSequence"
    assert kinds == [expected, expected, "jetspark.errors.UsageError"]


async def test_requests_of_the_library_itself_have_no_spans(
    nc: jetspark.Connection, stream: Stream, spans: Spans
) -> None:
    js = nc.jetstream()
    await js.account_info()
    consumer = await js.create_consumer(stream.name, ConsumerConfig(name="worker"))
    await consumer.fetch_no_wait(1)
    assert spans.all() == []


async def test_a_template_names_spans_of_subjects_with_ids(
    shared_server: Server, provider: TracerProvider, name: str, spans: Spans
) -> None:
    async with jetspark.connect(shared_server.url) as connection:
        nc = otel.instrument(
            connection, tracer_provider=provider, template=lambda subject: f"{subject.split('.')[0]}.*"
        )
        await nc.publish(f"{name}.17")
    span = spans.one("publish")
    assert span.name == f"publish {name}.*"
    assert attributes(span)["destination.template"] == f"{name}.*"
    assert attributes(span)["destination.name"] == f"{name}.17"


async def test_only_instrumented_connections_are_traced(plain: jetspark.Connection, stream: Stream) -> None:
    js = plain.jetstream()
    await js.publish(f"{stream.name}.1")
    consumer = await js.create_consumer(stream.name, ConsumerConfig(name="worker"))
    (message,) = await consumer.fetch(1)
    assert "traceparent" not in message.headers
    with pytest.raises(UsageError, match="not instrumented"):
        otel.process(message)
    with pytest.raises(UsageError, match="needs a connection, not JetStream"):
        otel.instrument(untyped(js))
