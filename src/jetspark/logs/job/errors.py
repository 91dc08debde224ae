"""What Spark tells when it fails, which is mostly the way that it took: as an `Error` of one line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from jetspark.errors import Error

__all__ = ["SPARK_ERRORS", "explained", "spark_explained"]

# Not a BrokenPipeError, which is of the one who reads what is printed.
_GONE: Final = (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError)
#: What calls into Spark raise: its own errors, and those of the way there when it is gone.
SPARK_ERRORS: Final = (PySparkException, Py4JError, *_GONE)

_LOST: Final = "The lines are gone. With source.fail_on_data_loss = false, the next run goes on without them"


@contextlib.contextmanager
def spark_explained(hint: str | None = None) -> Iterator[None]:
    """Raises `Error` for what Spark raises."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise explained(error, hint) from error


def explained(error: BaseException, hint: str | None = None) -> Error:
    """The error in what Spark tells. The hint is for those that have no better one."""
    if isinstance(error, _GONE):
        return Error("Spark ended, and did not say why", hint=hint)
    text = ""
    with contextlib.suppress(*SPARK_ERRORS):  # Java is asked for it, and may be gone by now.
        text = str(error)
    if found := re.search(r"jetspark\.errors\.(\w+): (.+)", text):
        told = found[2].strip()
        if found[1] == "DataLoss":
            return Error(told.partition(". Set failOnDataLoss")[0], hint=_LOST)
        return Error(told, hint=hint)
    if "No space left on device" in text:
        return Error("the disk is full: No space left on device", hint=hint)
    causes = re.findall(r"^Caused by: (?:[\w.$]+(?:Exception|Error): )?(.+)$", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = causes[-1] if causes else lines[0] if lines else type(error).__name__
    return Error(told.strip().partition(" SQLSTATE")[0], hint=hint)
