"""Record the transcripts that the parser is tested with: `python -m tests.wire.record`.

A raw socket talks to the real nats-server; both directions are written down, one line of the protocol
per line of the file. What changes from run to run (ids, keys, ports, times) is replaced. The files stay
small, since the tests cut them at every pair of places.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Self

from jetspark.server import Server, User, run

from .support import TRANSCRIPTS

_CONNECT = b'CONNECT {"verbose":%b,"pedantic":false,"headers":true,"no_responders":true%b}\r\n'

# What the server makes up, and what stands in the file instead. Sizes in control lines count payloads
# only, and none of these is in one.
_VOLATILE: tuple[tuple[bytes, bytes], ...] = (
    (rb'"(server_id|server_name|xkey|nonce|git_commit|go)":"[^"]*"', rb'"\1":"x"'),
    (rb'"(port|client_id)":\d+', rb'"\1":1'),
    (rb"(\$JS\.ACK(?:\.\w+){5})\.\d{19}\.", rb"\1.1700000000000000000."),
)


class Recorder:
    """A connection that writes down what passes. `timeout` of a read is 5 seconds."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=5)
        self._lines: list[tuple[str, bytes]] = []

    def send(self, data: bytes) -> None:
        self._lines += (("client", line) for line in data.splitlines(keepends=True))
        self._socket.sendall(data)

    def read_until(self, *marks: bytes) -> None:
        """Read until all marks came, in this order, and the last line is whole."""
        received = b""
        while not (re.search(b".*".join(map(re.escape, marks)), received, re.S) and received[-2:] == b"\r\n"):
            piece = self._socket.recv(65536)
            if not piece:
                raise ConnectionError(f"the server hung up after {received!r}")
            received += piece
        self._lines += (("server", line) for line in received.splitlines(keepends=True))

    def ping(self) -> None:
        """Read until the server has done everything that was sent."""
        self.send(b"PING\r\n")
        self.read_until(b"PONG\r\n")

    def save(self, name: str) -> None:
        text = ""
        for peer, line in self._lines:
            for pattern, replacement in _VOLATILE:
                line = re.sub(pattern, replacement, line)  # noqa: PLW2901
            text += f"{peer} {line!r}\n"
        (TRANSCRIPTS / f"{name}.txt").write_text(text, "ascii")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()


def core() -> None:
    """Verbose, with headers and without, a queue group, an empty payload, no responders, auto-unsubscribe."""
    with run(jetstream=False) as server, Recorder(server) as client:
        client.read_until(b"INFO")
        client.send(_CONNECT % (b"true", b""))
        client.read_until(b"+OK")
        client.send(b"SUB a.* q 1\r\nSUB _INBOX.x 2\r\nUNSUB 1 3\r\n")
        client.read_until(b"+OK\r\n" * 3)
        client.send(b"PUB a.b 5\r\nhello\r\n")
        client.send(b"PUB a.b _INBOX.x 0\r\n\r\n")
        client.send(b"HPUB a.b 24 28\r\nNATS/1.0\r\nKey: a: b \r\n\r\n\r\n\r\n\r\n")
        client.send(b"PUB nobody _INBOX.x 0\r\n\r\n")
        client.read_until(b"HMSG _INBOX.x", b" 503")
        client.send(b"UNSUB 2\r\n")
        client.ping()
        client.save("core")


def pull() -> None:
    """A pull that finds nothing, one that gets two messages and times out, the heartbeat of a third."""
    with run() as server, Recorder(server) as admin, Recorder(server) as client:
        admin.send(_CONNECT % (b"false", b""))
        admin.send(b"SUB _INBOX.admin 1\r\n")
        for verb, body in (
            ("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory"}),
            (
                "CONSUMER.CREATE.S.C",
                {"stream_name": "S", "config": {"name": "C", "ack_policy": "explicit"}, "action": "create"},
            ),
        ):
            request = json.dumps(body).encode()
            admin.send(b"PUB $JS.API.%b _INBOX.admin %d\r\n%b\r\n" % (verb.encode(), len(request), request))
            admin.read_until(b"_response")

        client.read_until(b"INFO")
        client.send(_CONNECT % (b"false", b""))
        client.send(b"SUB _INBOX.p 1\r\n")

        def fetch(body: bytes) -> None:
            client.send(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C _INBOX.p %d\r\n%b\r\n" % (len(body), body))

        fetch(b'{"batch":1,"no_wait":true}')
        client.read_until(b"404 No Messages")
        client.send(b"PUB s.a 3\r\none\r\n")
        client.send(b"HPUB s.b 28 31\r\nNATS/1.0\r\nNats-Msg-Id: 2\r\n\r\ntwo\r\n")
        client.ping()
        fetch(b'{"batch":3,"expires":50000000}')
        client.read_until(b"two", b"408 Request Timeout")
        client.send(b"PUB $JS.ACK.S.C.1.1.1.1700000000000000000.1 4\r\n+ACK\r\n")
        fetch(b'{"batch":1,"expires":350000000,"idle_heartbeat":150000000}')
        client.read_until(b"100 Idle Heartbeat")
        client.ping()
        client.save("pull")


def wrong_password() -> None:
    with run(users=[User(user="alice", password="right")]) as server, Recorder(server) as client:
        client.read_until(b"INFO")
        client.send(_CONNECT % (b"false", b',"user":"alice","pass":"wrong"'))
        client.send(b"PING\r\n")
        client.read_until(b"-ERR")
        client.save("wrong_password")


def permissions() -> None:
    """A publish and a subscription that are not allowed; the connection goes on."""
    user = User(user="alice", password="right", publish_allow=["ok"], subscribe_allow=["ok"])
    with run(users=[user]) as server, Recorder(server) as client:
        client.read_until(b"INFO")
        client.send(_CONNECT % (b"false", b',"user":"alice","pass":"right"'))
        client.send(b"SUB ok 1\r\nSUB secret.> q 2\r\nPUB secret 2\r\nno\r\nPUB ok 3\r\nyes\r\n")
        client.ping()
        client.save("permissions")


RECORDINGS: tuple[Callable[[], None], ...] = (core, pull, wrong_password, permissions)

if __name__ == "__main__":
    for recording in RECORDINGS:
        recording()
