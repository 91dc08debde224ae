"""The guide for those who come from nats-py: its examples run, and it lists every name of nats-py."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import enum
import inspect
import re
from pathlib import Path
from types import FunctionType, ModuleType

import nats.aio.client
import nats.aio.msg
import nats.aio.subscription
import nats.errors
import nats.js.api
import nats.js.errors
import nats.js.kv
import nats.js.object_store
import nats.micro
import nats.micro.request
import nats.micro.service
import pytest

import jetspark
from jetspark import connect
from jetspark.jetstream.model import info
from jetspark.server import Server
from tests.support.cases import for_each
from tests.support.consuming import make_stream

GUIDE = Path(__file__).parents[2] / "docs" / "migrating-from-nats-py.md"


def blocks(kind: str) -> list[tuple[str, str]]:
    """The code blocks of a kind, each with the heading above it."""
    found = []
    heading = ""
    for part in re.split(r"^(## .*|```python.*\n(?:.*\n)*?```)$", GUIDE.read_text(), flags=re.MULTILINE):
        if part.startswith("## "):
            heading = part[3:]
        elif part.startswith(f"```{kind}\n"):
            found.append((heading, part.partition("\n")[2].removesuffix("```")))
    return found


EXAMPLES = blocks("python")


def rows() -> list[tuple[str, str, str]]:
    """The rows of the tables of names: the heading, and both columns."""
    found = []
    heading = ""
    for line in GUIDE.read_text().partition("## Names")[2].partition("\n## ")[0].splitlines():
        if line.startswith("### "):
            heading = line[4:]
        elif line.startswith("| ") and not line.startswith("| nats-py"):
            _, theirs, ours, _ = line.split("|")
            found.append((heading, theirs, ours))
    return found


def methods(cls: type) -> set[str]:
    """The public methods and properties of a class of nats-py."""
    members = vars(cls).items()
    kinds = (property, classmethod, FunctionType)
    return {name for name, value in members if isinstance(value, kinds) and not name.startswith("_")}


def classes(module: ModuleType) -> set[str]:
    """The classes that a module of nats-py defines."""
    members = vars(module).items()
    return {name for name, value in members if inspect.isclass(value) and value.__module__ == module.__name__}


def nested(cls: type) -> set[str]:
    """The public classes inside of a class of nats-py, and what these have."""
    inner = {name: value for name, value in vars(cls).items() if inspect.isclass(value) and name[0] != "_"}
    members = {member for value in inner.values() for member in (*methods(value), *fields(value))}
    return {*inner, *members}


def fields(cls: type) -> set[str]:
    """The public fields of a data class of nats-py."""
    found = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return {field.name for field in found if not field.name.startswith("_")}


def parts(*modules: ModuleType) -> set[str]:
    """The public classes that modules of nats-py define, and their methods, but not how they are encoded."""
    names = [(module, name) for module in modules for name in classes(module) if not name.startswith("_")]
    inside = {member for module, name in names for member in methods(getattr(module, name))}
    return {*(name for _, name in names), *inside} - {"from_dict", "to_dict"}


def different() -> set[str]:
    """The fields of configurations and results, and the members of enums, that ours do not have."""
    found: set[str] = set()
    for name in classes(nats.js.api):
        theirs = getattr(nats.js.api, name)
        ours = getattr(jetspark, name, None) or getattr(info, name, None)
        if ours is None:
            continue
        members = {each.name for each in theirs} if issubclass(theirs, enum.Enum) else fields(theirs)
        found |= members - set(dir(ours))
    return found


Client = nats.aio.client.Client
Context = nats.js.JetStreamContext
THEIRS = {
    "nats": {"connect", "NATS"},
    "connect": set(inspect.signature(Client.connect).parameters) - {"self"},
    "Client": {*methods(Client), "RawCredentials", "ServerVersion", "stats"},
    "Msg": {*methods(nats.aio.msg.Msg), *fields(nats.aio.msg.Msg), "Ack", "Metadata"},
    "Subscription": methods(nats.aio.subscription.Subscription),
    "JetStreamManager": methods(nats.js.JetStreamManager),
    "JetStreamContext": methods(Context),
    "PushSubscription": methods(Context.PushSubscription),
    "PullSubscription": methods(Context.PullSubscription),
    "KeyValue": {*methods(nats.js.kv.KeyValue), *nested(nats.js.kv.KeyValue)},
    "ObjectStore": {
        *methods(nats.js.object_store.ObjectStore),
        *nested(nats.js.object_store.ObjectStore),
    },
    "nats.micro": {*nats.micro.__all__, *parts(nats.micro.service, nats.micro.request)},
    "nats.js": {"JetStreamContext", "JetStreamManager"},
    "nats.js.api": {
        *classes(nats.js.api),
        *(name for name in vars(nats.js.api) if name.isupper() and name[0] != "_"),
    },
    "fields and members": different(),
    "nats.errors": classes(nats.errors),
    "nats.js.errors": classes(nats.js.errors),
}


@for_each("part", THEIRS)
def test_the_guide_has_a_line_for_every_name_of(part: str) -> None:
    listed = {word for _, theirs, _ in rows() for word in re.findall(r"\w+", theirs)}
    assert sorted(THEIRS[part] - listed) == []


#: What the variables in the guide stand for.
OURS = {
    "jetspark": jetspark,
    "nc": jetspark.Connection,
    "js": jetspark.JetStream,
    "stream": jetspark.Stream,
    "consumer": jetspark.Consumer,
    "publisher": jetspark.Publisher,
    "sub": jetspark.Subscription,
    "psub": jetspark.PullSubscription,
    "msg": jetspark.JetStreamMsg,
    "config": jetspark.StreamConfig,
}
#: Sections whose names have tests and examples of their own.
ELSEWHERE = ("Key-value", "Object stores")


def test_the_names_of_jetspark_in_the_guide_exist() -> None:
    arguments = {*inspect.signature(connect).parameters, "callback"}
    for heading, _, ours in rows():
        if heading in ELSEWHERE:
            continue
        for owner, name in re.findall(r"\b([a-z]+)\.([A-Za-z]\w*)", ours):
            assert owner not in OURS or hasattr(OURS[owner], name), f"{owner}.{name}"
        if heading == "Connection":
            assert set(re.findall(r"`(\w+)=(?:\w+)?`", ours)) <= arguments


def test_the_guide_has_examples_of_both() -> None:
    assert len(EXAMPLES) >= 9
    assert len(blocks("python nats-py")) >= 8
    for _, text in blocks("python nats-py"):
        compile(text, "nats-py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize(("heading", "text"), EXAMPLES, ids=[heading for heading, _ in EXAMPLES])
async def test_an_example_of_the_guide_runs(
    server: Server, heading: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = compile(text, str(GUIDE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    async with asyncio.timeout(60), connect(server.url) as nc:
        js = nc.jetstream()
        await make_stream(js, 10)
        names = {"nc": nc, "js": js, "url": server.url, "jetspark": jetspark}
        outcome = eval(code, names)
        if inspect.isawaitable(outcome):
            await outcome
    assert "Traceback" not in capsys.readouterr().err
