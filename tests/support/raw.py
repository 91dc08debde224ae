"""The NATS protocol over a plain socket, for the tests of the embedded server."""

from __future__ import annotations

import json
import socket
import ssl
from types import TracebackType
from typing import Any, BinaryIO, Self

__all__ = ["RawClient"]


class RawClient:
    """A blocking client. Connects, sends CONNECT and waits for PONG; raises PermissionError for -ERR.

    More keywords go into CONNECT, for example auth_token. `timeout` seconds bound every single read.
    """

    def __init__(
        self,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        tls_first: bool = False,
        timeout: float = 10.0,
        user: str | None = None,
        password: str | None = None,
        **connect: object,
    ) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        try:
            if tls is not None and tls_first:
                self._socket = tls.wrap_socket(self._socket, server_hostname="127.0.0.1")
            self.info: dict[str, Any] = json.loads(self._read_info().removeprefix(b"INFO "))
            if tls is not None and not tls_first:
                self._socket = tls.wrap_socket(self._socket, server_hostname="127.0.0.1")
            self._file: BinaryIO = self._socket.makefile("rb")
            options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, **connect}
            if user is not None:
                options |= {"user": user, "pass": password}
            self.send(f"CONNECT {json.dumps(options)}\r\nPING\r\n".encode())
            self._until(b"PONG")
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def line(self) -> bytes:
        """Return the next protocol line. Raises ConnectionError at the end of the stream.

        The server asks by itself, two seconds after the connect: that is answered, and not returned.
        """
        while True:
            line = self._file.readline()
            if not line.endswith(b"\r\n"):
                raise ConnectionError("the server closed the connection")
            if line != b"PING\r\n":
                return line.rstrip()
            self.send(b"PONG\r\n")

    def ping(self) -> None:
        """Wait until the server has answered. Raises its -ERR."""
        self.send(b"PING\r\n")
        self._until(b"PONG")

    def request(self, subject: str, payload: object = b"", *, timeout: float = 10.0) -> bytes:
        """Send a request; the payload is JSON unless it is bytes. A reply without data is `b""`."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        inbox = f"_INBOX.{id(self):x}"
        self._socket.settimeout(timeout)
        self.send(f"SUB {inbox} 1\r\nUNSUB 1 1\r\nPUB {subject} {inbox} {len(data)}\r\n".encode())
        self.send(data + b"\r\n")
        return self.message()

    def store(self, subject: str, block: bytes, data: bytes) -> dict[str, Any]:
        """Publish with exactly these header bytes; return the acknowledgement of the stream."""
        inbox = f"_INBOX.{id(self):x}"
        size = f"{len(block)} {len(block) + len(data)}"
        self.send(f"SUB {inbox} 1\r\nUNSUB 1 1\r\nHPUB {subject} {inbox} {size}\r\n".encode())
        self.send(block + data + b"\r\n")
        ack: dict[str, Any] = json.loads(self.message())
        return ack

    def message(self) -> bytes:
        """Return the payload of the next message."""
        words = self._until(b"MSG", b"HMSG").split()
        size = int(words[-1])
        skip = int(words[-2]) if words[0] == b"HMSG" else 0
        return self._file.read(size + 2)[skip:-2]

    def api(self, verb: str, payload: object = b"") -> dict[str, Any]:
        """Send a request to the JetStream API. Raises RuntimeError for an error or a missing answer."""
        answer = self.request(f"$JS.API.{verb}", payload)
        if not answer:
            raise RuntimeError(f"nobody answers {verb}")
        result: dict[str, Any] = json.loads(answer)
        if "error" in result:
            raise RuntimeError(f"{verb}: {result['error']}")
        return result

    def certificate(self) -> dict[str, Any]:
        """The certificate of the server."""
        assert isinstance(self._socket, ssl.SSLSocket)
        return dict(self._socket.getpeercert() or {})

    def close(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _until(self, *verbs: bytes) -> bytes:
        while True:
            line = self.line()
            if line.startswith(verbs):
                return line
            if line.startswith(b"-ERR"):
                raise PermissionError(line.decode())

    def _read_info(self) -> bytes:
        # Byte by byte, because a TLS record may follow the line.
        line = b""
        while not line.endswith(b"\r\n"):
            byte = self._socket.recv(1)
            if not byte:
                raise ConnectionError("the server closed the connection")
            line += byte
        return line
