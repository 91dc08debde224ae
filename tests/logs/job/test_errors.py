"""What is told when Spark fails: one line, and what becomes of the batch."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from jetspark.errors import Error, NoServersError
from jetspark.logs.job.errors import explained, spark_explained
from tests.support.cases import for_each

JAVA = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted. SQLSTATE: XXKST
=== Streaming Query ===
org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.Something.run(Something.scala:1)
{}
\t... 12 more
"""


@for_each(
    ("text", "told", "hint"),
    [
        (
            JAVA.format("Caused by: java.io.IOException: No space left on device"),
            "the disk is full: No space left on device",
            "It goes on",
        ),
        (
            JAVA.format("Caused by: a.B$C: x\nCaused by: java.lang.ArithmeticException: long overflow"),
            "long overflow",
            "It goes on",
        ),
        (
            JAVA.format("jetspark.errors.NoServersError: no server at x. Start one"),
            "no server at x. Start one",
            "It goes on",
        ),
        # Nothing goes on by itself here, and the option has another name in the file.
        (
            JAVA.format(
                "jetspark.errors.DataLoss: stream LOGS lost the sequences [1, 5): purged. "
                "Set failOnDataLoss to false to go on with what is left"
            ),
            "stream LOGS lost the sequences [1, 5): purged",
            "To continue without the lost lines, set source.fail_on_data_loss = false",
        ),
        (
            JAVA.format(
                "Caused by: py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: "
                'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    1 / 0\n    ~~^~~\n'
                "ZeroDivisionError: division by zero\n\n\tat py4j.Protocol.getReturnValue(Protocol.java:1)"
            ),
            "ZeroDivisionError: division by zero",
            "It goes on",
        ),
        ("[CANNOT] Do it. SQLSTATE: 22007", "[CANNOT] Do it.", "It goes on"),
        ("", "PySparkException", "It goes on"),
    ],
)
def test_the_reason_is_found_in_what_spark_tells(text: str, told: str, hint: str) -> None:
    error = explained(PySparkException(text), "It goes on")
    assert (error.args[0], error.hint) == (told, hint)


@pytest.mark.parametrize(
    "gone", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError()]
)
def test_a_spark_that_is_gone_is_an_error_like_others(gone: Exception) -> None:
    with (
        pytest.raises(Error, match=r"the Spark process ended without an error message\. It goes on"),
        spark_explained("It goes on"),
    ):
        raise gone


@pytest.mark.parametrize("other", [NoServersError("none"), BrokenPipeError("none")])
def test_errors_of_others_pass(other: Exception) -> None:
    with pytest.raises(type(other), match=r"^none$"), spark_explained("It goes on"):
        raise other
