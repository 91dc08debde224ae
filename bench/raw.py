"""A NATS client that does nothing but move bytes: the ceiling for every other one on this machine."""

from __future__ import annotations

import socket
import subprocess
import sys


class RawSocket:
    """A blocking socket that has said CONNECT."""

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
        """Read until `mark` was seen `wanted` times; keeps only what a split mark needs."""
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
    """Publish `count` messages as fast as the server takes them, and wait for it to have them."""
    raw = RawSocket(port)
    frame = b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(payload), payload)
    block = frame * 1000
    for _ in range(count // 1000):
        raw.send(block)
    raw.send(frame * (count % 1000))
    raw.flush()
    raw.close()


class Blaster:
    """`publish` in a process of its own, which waits for `go()`."""

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
