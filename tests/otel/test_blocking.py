"""Traces of the blocking API."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import StatusCode

from jetspark import ConsumerConfig, PublishError, blocking, otel
from tests.otel.support import Spans, attributes, context_of, linked, parent


def test_a_trace_goes_from_a_thread_through_a_handler_to_the_acknowledgement(
    blocking_nc: blocking.Connection, blocking_stream: blocking.Stream, provider: TracerProvider, spans: Spans
) -> None:
    js, name = blocking_nc.jetstream(), blocking_stream.name
    consumer = js.create_consumer(name, ConsumerConfig(durable_name="worker"))
    with provider.get_tracer("test").start_as_current_span("outer") as outer:
        js.publish(f"{name}.new", b"four", msg_id="a1")
    inside = []

    def handle(message: blocking.JetStreamMsg) -> None:
        inside.append(trace.get_current_span().get_span_context())
        message.ack()

    with consumer.consume(handle):
        spans.wait_blocking("process")
    publish, process, ack = spans.one("publish"), spans.one("process"), spans.one("ack")
    assert parent(publish) == outer.get_span_context().span_id
    assert parent(process) == context_of(publish).span_id
    assert parent(ack) == context_of(process).span_id
    assert inside == [context_of(process)]
    assert {context_of(each).trace_id for each in spans.all()} == {outer.get_span_context().trace_id}
    assert attributes(process)["consumer.group.name"] == "worker"
    assert attributes(publish, "jetspark.") == {"stream": name, "sequence": 1}


def test_messages_are_settled_in_every_way(
    blocking_nc: blocking.Connection, blocking_stream: blocking.Stream, spans: Spans
) -> None:
    js, name = blocking_nc.jetstream(), blocking_stream.name
    with js.publisher() as publisher:
        for number in range(8):
            publisher.send(f"{name}.{number}", b"")
    published = [context_of(span).span_id for span in spans.wait_blocking("publish", 8)]
    by_sequence = {
        attributes(span, "jetspark.")["sequence"]: context_of(span).span_id for span in spans.all()
    }
    assert sorted(by_sequence.values()) == sorted(published)
    consumer = js.create_consumer(name, ConsumerConfig(name="worker"))
    batch = consumer.fetch(5)
    with otel.process(batch[0]):
        batch[0].ack_sync()
    batch[1].nak(delay=3600)
    batch[2].term("never")
    following = batch[3].ack_next()
    assert following is not None
    with otel.process([batch[4], following]):
        blocking.ack_all([batch[4], following])
        following.ack()
    first, both = spans.named("process")
    assert parent(first) == by_sequence[1]
    assert parent(spans.one("nak")) == by_sequence[2]
    assert parent(spans.one("term")) == by_sequence[3]
    acks = spans.named("ack")
    assert [parent(span) for span in acks] == [
        context_of(first).span_id,
        by_sequence[4],
        context_of(both).span_id,
    ]
    assert linked(acks[2]) == linked(both) == [by_sequence[5], by_sequence[6]]


def test_publish_request_and_respond_are_traced(
    blocking_nc: blocking.Connection, name: str, spans: Spans
) -> None:
    def answer(message: blocking.Msg) -> None:
        if message.reply:
            message.respond(b"here")

    blocking_nc.subscribe(f"{name}.>", queue="group", callback=answer)
    blocking_nc.publish(f"{name}.1", b"1")
    assert blocking_nc.request(f"{name}.2").data == b"here"
    processed = spans.wait_blocking("process", 2)
    publish, respond = spans.named("publish")
    request = spans.one("request")
    assert [parent(span) for span in processed] == [context_of(publish).span_id, context_of(request).span_id]
    assert parent(respond) == context_of(processed[1]).span_id
    assert respond.name == "publish (temporary)"
    assert attributes(processed[0])["consumer.group.name"] == "group"


@pytest.mark.parametrize("ordered", [False, True])
def test_push_subscriptions_run_their_callbacks_in_spans(
    blocking_nc: blocking.Connection, blocking_stream: blocking.Stream, spans: Spans, ordered: bool
) -> None:
    js = blocking_nc.jetstream()
    js.publish(f"{blocking_stream.name}.1")
    js.subscribe(f"{blocking_stream.name}.>", callback=lambda message: None, ordered=ordered)
    (process,) = spans.wait_blocking("process")
    assert parent(process) == context_of(spans.one("publish")).span_id


@pytest.mark.parametrize("fails", [ValueError, OSError])
def test_errors_are_in_spans(
    blocking_nc: blocking.Connection,
    blocking_stream: blocking.Stream,
    spans: Spans,
    fails: type[Exception],
) -> None:
    js, name = blocking_nc.jetstream(), blocking_stream.name
    with pytest.raises(PublishError), js.publisher() as publisher:
        publisher.publish(f"{name}.1", expected_last_sequence=7)
    (publish,) = spans.wait_blocking("publish")
    assert attributes(publish, "error.") == {"type": "jetspark.errors.WrongLastSequence"}
    js.publish(f"{name}.1")

    def handle(message: blocking.JetStreamMsg) -> None:
        raise fails

    consumer = js.create_consumer(name, ConsumerConfig(name="worker"))
    with consumer.consume(handle, on_error=lambda error: None):
        process = spans.wait_blocking("process")[0]
    assert process.status.status_code is StatusCode.ERROR
    assert attributes(process, "error.") == {"type": fails.__name__}
