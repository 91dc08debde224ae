"""Turns Spark's errors, which are mostly stack traces, into an `Error` of one line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from jetspark.errors import Error

__all__ = ["SPARK_ERRORS", "explained", "spark_explained"]

# Not BrokenPipeError: it comes from the reader of our standard output.
_GONE: Final = (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError)
#: Raised by calls into Spark: its own errors, and those of the connection to its process.
SPARK_ERRORS: Final = (PySparkException, Py4JError, *_GONE)

#: The exception that ends a traceback of Python.
_RAISED: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)")
_LOST: Final = "To continue without the lost lines, set source.fail_on_data_loss = false"


@contextlib.contextmanager
def spark_explained(hint: str | None = None) -> Iterator[None]:
    """Convert errors of Spark into `Error`."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise explained(error, hint) from error


def explained(error: BaseException, hint: str | None = None) -> Error:
    """The `Error` for an error of Spark. The hint is used if there is no better one."""
    if isinstance(error, _GONE):
        return Error("the Spark process ended without an error message", hint=hint)
    text = ""
    with contextlib.suppress(*SPARK_ERRORS):  # Calls Java, whose process may have ended.
        text = str(error)
    if found := re.search(r"jetspark\.errors\.(\w+): (.+)", text):
        message = found[2].strip()
        if found[1] == "DataLoss":
            return Error(message.partition(". Set failOnDataLoss")[0], hint=_LOST)
        return Error(message, hint=hint)
    if "No space left on device" in text:
        return Error("the disk is full: No space left on device", hint=hint)
    causes = re.findall(r"^Caused by: (?:[\w.$]+(?:Exception|Error): )?(.+)$", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = causes[-1] if causes else lines[0] if lines else type(error).__name__
    if "Traceback (most recent call last)" in message and (raised := _RAISED.findall(text)):
        message = raised[-1]
    return Error(message.strip().partition(" SQLSTATE")[0], hint=hint)
