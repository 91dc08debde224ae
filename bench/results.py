"""What was measured, with the machine, the versions and the date. Kept as JSON beside the page."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import jetspark
from bench.harness import Table
from jetspark.server import binary
from jetspark.wire import COMPILED

#: The packages whose versions the page names.
PACKAGES = ("nats-py", "natsrpy", "uvloop", "pyspark", "pyarrow")


@dataclasses.dataclass
class Run:
    """The tables of one measurement, and when they were measured."""

    date: str
    rounds: int
    tables: list[Table]

    def at(self, size: int) -> Table | None:
        return next((table for table in self.tables if table.size == size), None)


@dataclasses.dataclass
class Results:
    """Everything that the page shows."""

    date: str
    machine: dict[str, str]
    versions: dict[str, str]
    quick: bool = False
    #: How long the run took.
    seconds: float = 0.0
    runs: dict[str, Run] = dataclasses.field(default_factory=dict)

    @classmethod
    def here(cls, *, quick: bool = False) -> Self:
        return cls(today(), machine(), versions(), quick)

    @classmethod
    def load(cls, path: Path) -> Self:
        document = json.loads(path.read_text())
        runs = {
            name: Run(run["date"], run["rounds"], [Table(**table) for table in run["tables"]])
            for name, run in document.pop("runs").items()
        }
        return cls(**document, runs=runs)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(_rounded(dataclasses.asdict(self)), indent=1) + "\n")


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def machine() -> dict[str, str]:
    """Cores, model, memory and kernel."""
    found = re.search(r"^model name\s*: (.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+) kB$", _read("/proc/meminfo"), re.MULTILINE)
    return {
        "CPU": f"{os.cpu_count()} x {found[1] if found else platform.machine()}",
        "memory": f"{int(memory[1]) / (1 << 20):.0f} GiB" if memory else "unknown",
        "kernel": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    """The versions of everything that takes part; what is not installed is left out."""
    compiled = "compiled" if COMPILED else "pure Python"
    found = {"Python": platform.python_version(), "jetspark": f"{jetspark.__version__} ({compiled})"}
    found["nats-server"] = _first(r"v([\d.]+\S*)", str(binary.find()), "--version")
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    java = Path(os.environ.get("JAVA_HOME", ""), "bin/java") if os.environ.get("JAVA_HOME") else "java"
    found["Java"] = _first(r'version "([^"]+)"', str(java), "-version")
    return found


def _first(pattern: str, *command: str) -> str:
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    found = re.search(pattern, output.stdout + output.stderr)
    return found[1] if found else "unknown"


def _read(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""


def _rounded(value: Any) -> Any:
    """Six digits are more than a measurement has."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return value
