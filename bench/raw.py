"""A NATS client that only moves bytes: the ceiling for every other client on this machine."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time


class RawSocket:
    """A blocking socket after the CONNECT handshake."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.read_until(b"\r\n")
        self.send(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nPING\r\n')
        self.read_until(b"PONG\r\n")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_until(self, end: bytes) -> bytes:
        """Everything up to and including `end`."""
        while end not in self.buffer:
            self.receive()
        found, _, self.buffer = self.buffer.partition(end)
        return found + end

    def receive(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer += data

    def count(self, mark: bytes, wanted: int) -> None:
        """Read until `mark` was seen `wanted` times. Keeps only enough bytes to find a split mark."""
        seen = self.buffer.count(mark)
        tail = self.buffer[-len(mark) + 1 :]
        self.buffer = b""
        while seen < wanted:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the server closed the connection")
            chunk = tail + data
            seen += chunk.count(mark)
            tail = chunk[-len(mark) + 1 :]

    def flush(self) -> None:
        self.send(b"PING\r\n")
        self.read_until(b"PONG\r\n")

    def close(self) -> None:
        self.socket.close()


def publish(port: int, subject: str, payload: bytes, count: int) -> None:
    """Publish `count` messages as fast as the server takes them, and wait until it has received them."""
    raw = RawSocket(port)
    frame = b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(payload), payload)
    block = frame * 1000
    for _ in range(count // 1000):
        raw.send(block)
    raw.send(frame * (count % 1000))
    raw.flush()
    raw.close()


def publish_acknowledged(
    port: int,
    subject: str,
    payload: bytes,
    count: int,
    window: int,
    *,
    message_ids: bool = False,
    headers: bytes = b"",
) -> None:
    """Publish with a reply subject, `window` in flight, and count the acknowledgements.

    `headers` are complete lines, sent with every message.
    """
    raw = RawSocket(port)
    raw.send(b"SUB _INBOX.raw.* 1\r\n")
    raw.flush()
    run = b"%x" % time.time_ns()
    mark, tail = b"MSG _INBOX.raw.", b""
    sent = acknowledged = 0
    while acknowledged < count:
        room = min(window - (sent - acknowledged), count - sent)
        if room >= min(window // 4, count - sent) and room:
            raw.send(
                b"".join(
                    _acknowledged_frame(
                        subject.encode(), number, payload, run if message_ids else b"", headers
                    )
                    for number in range(sent, sent + room)
                )
            )
            sent += room
        data = raw.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        chunk = tail + data
        acknowledged += chunk.count(mark)
        tail = chunk[-len(mark) + 1 :]
    raw.close()


def _acknowledged_frame(subject: bytes, number: int, payload: bytes, run: bytes, headers: bytes) -> bytes:
    if not run and not headers:
        return b"PUB %b _INBOX.raw.%d %d\r\n%b\r\n" % (subject, number, len(payload), payload)
    ids = b"Nats-Msg-Id: %b-%d\r\n" % (run, number) if run else b""
    header = b"NATS/1.0\r\n%b%b\r\n" % (ids, headers)
    size = len(header)
    return b"HPUB %b _INBOX.raw.%d %d %d\r\n%b%b\r\n" % (
        subject,
        number,
        size,
        size + len(payload),
        header,
        payload,
    )


def pull(port: int, stream: str, consumer: str, *, subject: str, count: int, batch: int, acked: bool) -> None:
    """Pull `count` messages, `batch` at a time, and acknowledge those of one read with one write."""
    raw = RawSocket(port)
    raw.send(b"SUB _INBOX.raw 1\r\n")
    target = b"$JS.API.CONSUMER.MSG.NEXT.%b.%b" % (stream.encode(), consumer.encode())

    def request(wanted: int) -> bytes:
        body = b'{"batch":%d,"expires":30000000000}' % wanted
        return b"PUB %b _INBOX.raw %d\r\n%b\r\n" % (target, len(body), body)

    # Also matches HMSG.
    mark = b"MSG %b 1 " % subject.encode()
    replies = re.compile(re.escape(mark) + rb"(\S+) \d+\r\n")
    while count:
        wanted = min(batch, count)
        count -= wanted
        raw.send(request(wanted))
        if not acked:
            raw.count(mark, wanted)
            continue
        seen, tail = 0, b""
        while seen < wanted:
            chunk = tail + raw.socket.recv(1 << 20)
            found = list(replies.finditer(chunk))
            if found:
                raw.send(b"".join([b"PUB %b 4\r\n+ACK\r\n" % match[1] for match in found]))
            seen += len(found)
            # A control line may be split: keep the bytes after the last complete one.
            tail = chunk[found[-1].end() :] if found else chunk
    raw.flush()
    raw.close()


class Blaster:
    """`publish` in a separate process, which waits for `go()`."""

    def __init__(self, port: int, subject: str, size: int, count: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.raw", str(port), subject, str(size), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        assert self._process.stdout is not None
        if self._process.wait(60) != 0:
            raise RuntimeError("the blaster failed")
        self._process.stdout.close()


if __name__ == "__main__":
    port, subject, size, count = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.read()
    publish(int(port), subject, b"x" * int(size), int(count))
