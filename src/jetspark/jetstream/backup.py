"""Backup and restore of a stream: a directory with `backup.json` and `stream.tar.s2`, as of the `nats` CLI.

The server makes the archive and reads it; jetspark only keeps its bytes. A file gets its name when it is
complete, `backup.json` last: a directory with it holds a whole backup. A backup that fails removes its
files; one that is killed leaves a `.partial` file, which the next one replaces. Only the owner may read them.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

import msgspec

from jetspark.core.message import Msg
from jetspark.core.numbers import check_seconds
from jetspark.core.options import check_path
from jetspark.errors import Error, JetStreamError, Timeout, UsageError
from jetspark.jetstream import api as endpoints
from jetspark.jetstream.message.status import OnDirectGet, classify
from jetspark.jetstream.model.base import decode_object
from jetspark.jetstream.model.info import StreamInfo, StreamState, api_error
from jetspark.jetstream.model.requests import RestoreRequest, SnapshotRequest
from jetspark.jetstream.model.stream import StreamConfig
from jetspark.wire.headers import has_status

if TYPE_CHECKING:
    from jetspark.jetstream.api import API

__all__ = ["Progress", "backup", "backup_config", "backup_size", "restore"]

Progress = Callable[[int], object]

_DESCRIPTION: Final = "backup.json"
_ARCHIVE: Final = "stream.tar.s2"
#: Bytes of a message with a part of the archive; less if the server accepts less.
_CHUNK: Final = 128 * 1024


async def backup(
    api: API,
    stream: str,
    directory: str | os.PathLike[str],
    *,
    consumers: bool,
    check: bool,
    timeout: float,
    progress: Progress | None,
) -> StreamState:
    """Write a backup of a stream into a directory; returns the state of the stream."""
    check_seconds("timeout", timeout)
    check_path("directory", directory)
    target = Path(directory)
    if await asyncio.to_thread(os.path.exists, target / _DESCRIPTION):
        raise UsageError(f"{target} already holds a backup", hint="Give another directory")
    connection = api.connection
    async with await connection.subscribe(connection.new_inbox()) as parts:
        request = SnapshotRequest(
            deliver_subject=parts.subject,
            no_consumers=not consumers,
            chunk_size=min(_CHUNK, connection.max_payload),
            jsck=check,
        )
        answer = await api.call(endpoints.STREAM_SNAPSHOT, request, stream=stream, timeout=timeout)
        await asyncio.to_thread(_make, target)
        with _NewFile(target / _ARCHIVE) as file:
            received = 0
            while part := await _next(parts.next, timeout, stream):
                await asyncio.to_thread(file.write, part.data)
                received += len(part.data)
                if progress is not None:
                    progress(received)
                if part.reply:
                    await part.respond()
            await asyncio.to_thread(file.finish)
    description = {"config": answer.get("config"), "state": answer.get("state")}
    with _NewFile(target / _DESCRIPTION) as file:
        file.write(msgspec.json.format(msgspec.json.encode(description)))
        file.finish()
    return StreamState.from_wire(answer.get("state") or {})


async def restore(
    api: API,
    directory: str | os.PathLike[str],
    *,
    config: StreamConfig | None,
    timeout: float,
    progress: Progress | None,
) -> StreamInfo:
    """Create the stream of a backup again. Raises `UsageError` if the directory holds no backup."""
    check_seconds("timeout", timeout)
    check_path("directory", directory)
    source = Path(directory)
    description = _read(source / _DESCRIPTION)
    if config is not None:
        StreamConfig.check_type(config, "config")
        description["config"] = config.to_wire()
    name = description["config"].get("name")
    connection = api.connection
    with _open(source / _ARCHIVE) as archive:
        request = RestoreRequest(config=description["config"], state=description["state"])
        answer = await api.call(endpoints.STREAM_RESTORE, request, stream=name, timeout=timeout)
        target = answer.get("deliver_subject")
        if not isinstance(target, str):
            raise JetStreamError(f"the server did not say where to send the backup of stream {name}")
        size = min(_CHUNK, connection.max_payload)
        sent = 0
        while part := await asyncio.to_thread(archive.read, size):
            _raise_if_refused((await connection.request_block(target, part, b"", timeout=timeout)).data, name)
            sent += len(part)
            if progress is not None:
                progress(sent)
        final = (await connection.request_block(target, b"", b"", timeout=timeout)).data
    return StreamInfo.from_wire(_raise_if_refused(final, name))


def backup_config(directory: str | os.PathLike[str]) -> StreamConfig:
    """The configuration in a backup. Raises `UsageError`."""
    return StreamConfig.from_wire(_read(Path(directory) / _DESCRIPTION)["config"])


def backup_size(directory: str | os.PathLike[str]) -> int:
    """The bytes of the archive of a backup. Raises `UsageError`."""
    with _open(Path(directory) / _ARCHIVE) as archive:
        return os.fstat(archive.fileno()).st_size


async def _next(take: Callable[[float], Any], timeout: float, stream: str) -> Msg | None:
    """The next part of the archive; None at its end."""
    try:
        part: Msg = await take(timeout)
    except Timeout as error:
        raise Timeout(f"the backup of stream {stream} stopped: nothing arrived for {timeout:g} s") from error
    if part.data:
        return part
    if has_status(part._frame.header):
        status = classify(part._frame.header)
        if status.on_direct_get is not OnDirectGet.END:
            raise JetStreamError(
                f"the backup of stream {stream} failed: {status.code} {status.description}".rstrip()
            )
    return None


def _raise_if_refused(data: bytes, stream: str) -> dict[str, Any]:
    if not data:
        return {}
    answer = decode_object(data)
    if answer.get("error") is not None:
        raise api_error(answer["error"], stream=stream)
    return answer


def _read(path: Path) -> dict[str, Any]:
    try:
        description = decode_object(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", hint="Give the directory that a backup was written to"
        ) from None
    except Error:
        description = {}
    if not all(isinstance(description.get(part), dict) for part in ("config", "state")):
        raise UsageError(f"{path} does not describe a backup")
    return description


def _make(directory: Path) -> None:
    with _named(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _open(path: Path) -> IO[bytes]:
    with _named(path):
        return path.open("rb")


class _NewFile:
    """A file that gets its name with `finish`, when all is on disk; without that the `with` block removes it.

    Raises `UsageError` when the disk refuses it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        # A thread may still write when the block is left by a cancellation.
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        with _named(self._path):
            descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        return self

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        with self._lock, _named(self._path):
            while rest and not self._file.closed:
                rest = rest[self._file.write(rest) :]

    def finish(self) -> None:
        with self._lock, _named(self._path):
            os.fsync(self._file.fileno())
            os.replace(self._partial, self._path)

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._file.close()
            self._partial.unlink(missing_ok=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
