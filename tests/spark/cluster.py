"""A standalone Spark cluster on loopback: a master, two workers, and a Spark Connect server as its driver."""

from __future__ import annotations

import os
import re
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql.connect.session import SparkSession

from tests.spark.processes import Program
from tests.spark.support import SPARK_CONF
from tests.support.jwt import new_identity
from tests.support.quick_spark import QUICK_JAVA

__all__ = ["SparkCluster"]

#: Two addresses, because Spark never runs both attempts of a speculated task on one host.
_HOSTS = ("127.0.0.1", "127.0.0.2")
_LONG = 120

_CONF = SPARK_CONF | {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.executor.memory": "512m",
    # A function between source and sink gets rows soon, and not all at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
    # A stage of one task is never speculated; in one of two, the slower is.
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.interval": "50ms",
}


class SparkCluster:
    """The processes, from entering the context to leaving it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self.identity = new_identity()
        """A user of NATS, whose seed is in `user.nk` among the files that Spark brings to its processes."""
        self.url = ""
        """Where Connect clients go."""

    def __enter__(self) -> Self:
        seed = self._directory / "user.nk"
        seed.write_text(self.identity.seed)
        conf = _CONF | {"spark.files": str(seed)}
        with ExitStack() as stack:
            self._stack = stack
            master = self._daemon("master", "org.apache.spark.deploy.master.Master", _HOSTS[0])
            url = self._answer(master, r"Starting Spark master at (spark://\S+)")
            for number, host in enumerate(_HOSTS):
                work = [
                    "--cores",
                    "1",
                    "--memory",
                    "512m",
                    "--work-dir",
                    str(self._directory / f"work{number}"),
                ]
                self._daemon(f"worker{number}", "org.apache.spark.deploy.worker.Worker", host, *work, url)
            settings = [part for item in conf.items() for part in ("--conf", "=".join(item))]
            server = "org.apache.spark.sql.connect.service.SparkConnectServer"
            command = [self._script("spark-submit"), "--master", url, *settings, "--class", server]
            connect = self._start("connect", [*command, "spark-internal"], _HOSTS[0])
            port = self._answer(connect, r"Spark Connect server started at: \S*:(\d+)")
            self.url = f"sc://127.0.0.1:{port}"
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def session(self) -> SparkSession:
        """A Connect session. It stands beside the classic one, which `pyspark.sql` would not allow."""
        return SparkSession.builder.remote(self.url).create()

    def _daemon(self, name: str, class_name: str, host: str, *arguments: str) -> Program:
        place = ["--host", host, "--port", "0", "--webui-port", "0"]
        return self._start(name, [self._script("spark-class"), class_name, *place, *arguments], host)

    def _script(self, name: str) -> str:
        return str(Path(os.environ["SPARK_HOME"], "bin", name))

    def _start(self, name: str, command: list[str], host: str) -> Program:
        directory = self._directory / name
        directory.mkdir()
        program = Program(
            command,
            directory / f"{name}.log",
            SPARK_LOCAL_IP=host,
            SPARK_DAEMON_JAVA_OPTS=f"{QUICK_JAVA} -Dspark.master.rest.enabled=false",
        )
        self._stack.callback(program.close)
        return program

    def _answer(self, program: Program, pattern: str) -> str:
        """What the program says about itself."""

        deadline = time.monotonic() + _LONG
        while (found := re.search(pattern, program.said())) is None:
            program.check()
            assert time.monotonic() < deadline, f"after {_LONG} seconds not said: {pattern}"
            time.sleep(0.1)
        return found[1]
