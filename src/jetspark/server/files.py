"""The private directory of a server: configuration, log, ports and a temporary store.

The directory has mode 0700 and its files 0600, because the configuration holds secrets. Only the process
that created the directory removes it.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import tempfile
from urllib.parse import urlsplit

__all__ = ["ServerFiles"]


class ServerFiles:
    """The paths in the directory, and how its files are read and written."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self.directory = tempfile.mkdtemp(prefix="jetspark-")  # mode 0700
        self.config = os.path.join(self.directory, "server.conf")
        self.log = os.path.join(self.directory, "server.log")
        self.store = os.path.join(self.directory, "store")
        self.ports = os.path.join(self.directory, "ports")
        os.mkdir(self.ports, 0o700)

    def write_config(self, text: str) -> None:
        """Replace the configuration in one step, so that the server never reads half of it."""
        descriptor = os.open(
            self.config + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(self.config + ".new", self.config)

    def log_size(self) -> int:
        return os.path.getsize(self.log) if os.path.exists(self.log) else 0

    def read_log(self, start: int = 0) -> str:
        """Return the log from byte `start` on."""
        try:
            with open(self.log, "rb") as file:
                file.seek(start)
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def read_ports(self, pid: int) -> dict[str, int] | None:
        """Return the server's ports by kind, `nats` for clients; `None` until the server has written them."""
        for path in glob.glob(os.path.join(glob.escape(self.ports), f"*_{pid}.ports")):
            try:
                with open(path, "rb") as file:
                    kinds: dict[str, list[str]] = json.load(file)
            except ValueError:
                continue  # half written
            return {kind: urlsplit(urls[0]).port or 0 for kind, urls in kinds.items() if urls}
        return None

    def remove(self) -> None:
        if self._owner == os.getpid():
            shutil.rmtree(self.directory, ignore_errors=True)
