"""A receiver that raises harms nobody else."""

from __future__ import annotations

import pytest

from jetspark import Error, Event, RemoteProtocolError, connect
from jetspark.core.receiver import Receiver
from jetspark.server import Server
from jetspark.wire import MsgFrame
from tests.support.scripted import ScriptedServer
from tests.support.watch import Watch


class Raising(Receiver):
    """Raises when it gets messages, and when the server refuses a publish."""

    def __init__(self, sid: bytes, error: Exception) -> None:
        super().__init__(sid, b"orders")
        self._error = error

    def deliver(self, frames: list[MsgFrame]) -> None:
        raise self._error

    def publish_refused(self, subject: str, error: Error) -> None:
        raise self._error


@pytest.mark.parametrize("error", [KeyError("a bug"), RemoteProtocolError("a bad message")], ids=repr)
async def test_what_a_receiver_raises_is_reported_and_the_connection_stays(
    shared_server: Server, watch: Watch, error: Exception
) -> None:
    async with connect(shared_server.url, **watch.listeners) as nc:
        nc.session.add(Raising(nc.session.new_sid(), error))
        subscription = await nc.subscribe("orders")
        for number in range(3):
            nc.publish("orders", b"%d" % number)
            assert (await subscription.next(20)).data == b"%d" % number
        await nc.flush()
        assert watch.events == [(Event.ERROR, error)] * 3
        assert nc.connected


async def test_what_a_receiver_raises_does_not_hide_the_next_frames_of_the_server(watch: Watch) -> None:
    error = KeyError("a bug")
    async with ScriptedServer(answers_pings=True) as server, connect(server.url, **watch.listeners) as nc:
        nc.session.add(Raising(nc.session.new_sid(), error))
        peer = await server.peer()
        server.on(
            "x", lambda peer, _: peer.send(b"-ERR 'Permissions Violation for Publish to \"x\"'\r\n+OK\r\n")
        )
        nc.publish("x")
        await nc.flush()  # Its PONG follows in the same read, or in a later one.
        assert (Event.ERROR, error) in watch.events
        assert not peer.closed.is_set()
        assert Event.DISCONNECTED not in watch.names
