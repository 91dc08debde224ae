"""The server of the examples: that of NATS_URL, or on port 4222; one of their own if none answers there."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import jetspark

PREFIXES = ("EXAMPLE_", "KV_EXAMPLE_", "OBJ_EXAMPLE_")


@contextmanager
def example_server(*streams: str) -> Iterator[str]:
    """The URL of a server. The streams of the example are deleted at the end, and what a former run left."""
    assert all(name.startswith(PREFIXES) for name in streams), "other streams are not ours to delete"
    url = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
    with ExitStack() as stack:
        try:
            nc = stack.enter_context(jetspark.blocking.connect(url))
        except jetspark.ConnectionError:
            print(f"No server answers on {url}: the example starts one of its own.")
            url = stack.enter_context(own_server()).url
        else:
            delete(nc.jetstream(), streams)
            stack.callback(delete, nc.jetstream(), streams)
        yield url


def own_server() -> jetspark.server.Server:
    try:
        return jetspark.server.run()
    except jetspark.ServerNotFound as error:
        raise SystemExit(str(error)) from None


def delete(js: jetspark.blocking.JetStream, streams: tuple[str, ...]) -> None:
    for name in streams:
        with suppress(jetspark.StreamNotFound):
            js.delete_stream(name)
