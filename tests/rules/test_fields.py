"""`help()` says of every setting what it is, with unit and default, and names no type of the wire."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from jetspark import (
    ConsumerConfig,
    JetStream,
    KeyValueConfig,
    ObjectStoreConfig,
    OrderedConsumer,
    Stream,
    StreamConfig,
    StreamSource,
    blocking,
    server,
)
from jetspark.client import connect
from jetspark.jetstream.pull.options import PullKeywords
from jetspark.jetstream.push.options import PushKeywords
from jetspark.logs.agent.options import ShipOptions
from jetspark.server.options import Options
from jetspark.spark.options.table import OPTIONS
from tests.support.cases import for_each

MODELS = [StreamConfig, ConsumerConfig, StreamSource, KeyValueConfig, ObjectStoreConfig]
CONFIGS = [*MODELS, ShipOptions]
GUIDE = (Path(__file__).parents[2] / "docs/spark.md").read_text()


def documented(text: str, section: str) -> dict[str, str]:
    """The entries of a section of a docstring; `a, b: text` is about both."""
    body = inspect.cleandoc(text).partition(f"{section}:\n")[2]
    entries = re.findall(r"^    (\w+(?:, \w+)*):((?:.*)(?:\n {8}.*)*)", body, re.MULTILINE)
    return {name: " ".join(said.split()) for names, said in entries for name in names.split(", ")}


def fields(config: type) -> list[str]:
    """The names of the fields of a configuration."""
    if dataclasses.is_dataclass(config):
        return [field.name for field in dataclasses.fields(config)]
    assert issubclass(config, msgspec.Struct)
    return list(config.__struct_fields__)


@for_each("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_field_of_a_configuration_is_documented(config: type) -> None:
    said = documented(config.__doc__ or "", "Attributes")
    assert list(said) == [name for name in fields(config) if name != "extra"]
    for field, annotation in config.__annotations__.items():
        if "Duration" in str(annotation):
            assert re.search(r"\bseconds\b", said[field], re.IGNORECASE), f"{field} is in seconds"


@for_each("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_field_of_a_configuration_says_its_default(config: type) -> None:
    said = documented(config.__doc__ or "", "Attributes")
    assert [name for name, text in said.items() if not re.search(r"\bdefault\b|Required", text)] == []


@for_each("config", MODELS, ids=lambda config: config.__name__)
def test_help_shows_no_type_of_the_wire(config: type) -> None:
    shown = pydoc.plain(pydoc.render_doc(config))
    assert "'ns'" not in shown
    assert "Annotated" not in shown
    assert "Meta(" not in shown
    for field in fields(config):
        assert f"{field}: " in shown


#: Functions with many options, and where these and their defaults come from.
FUNCTIONS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (server.run, Options),
    (JetStream.ordered_consumer, OrderedConsumer),
    (Stream.ordered_consumer, OrderedConsumer),
    (blocking.JetStream.ordered_consumer, OrderedConsumer),
    (blocking.Stream.ordered_consumer, OrderedConsumer),
]


@for_each(("function", "origin"), FUNCTIONS, ids=lambda each: each.__qualname__)
def test_editors_show_the_options_of(function: Callable[..., Any], origin: Callable[..., Any]) -> None:
    shown = inspect.signature(function).parameters
    assert [name for name, each in shown.items() if each.kind is each.VAR_KEYWORD] == []
    expected = {
        name: each.default
        for name, each in inspect.signature(origin).parameters.items()
        if each.kind is each.KEYWORD_ONLY and name != "cluster"  # Set by `run_cluster`.
    }
    actual = {name: each.default for name, each in shown.items() if each.kind is each.KEYWORD_ONLY}
    lists = {name: () for name in ("users", "nkeys") if name in actual and actual[name] is None}
    assert actual | lists == expected


@for_each(
    "function",
    [server.run, JetStream.ordered_consumer, JetStream.publisher, connect],
    ids=lambda function: function.__qualname__,
)
def test_options_are_documented_with_defaults_that_can_be_seen(function: Callable[..., Any]) -> None:
    text = inspect.getdoc(function) or ""
    said = documented(text, "Args")
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        assert name in said
        if parameter.default in (None, "", ()) and "None, its default, is not used" not in text:
            assert re.search(r"\bdefault\b|\(.+\)", said[name]), f"the default of {name}"
        if isinstance(parameter.default, float):
            assert re.search(r"[Ss]econds|such wait", said[name]), f"{name} is in seconds"


def test_the_options_of_subscribe_are_documented() -> None:
    said = documented(inspect.getdoc(JetStream.subscribe) or "", "Args")
    assert set(PushKeywords.__annotations__) <= set(said)


def test_the_options_of_messages_are_documented() -> None:
    from jetspark import Consumer

    said = inspect.getdoc(Consumer.messages) or ""
    assert [name for name in PullKeywords.__annotations__ if not re.search(rf"\b{name}\b", said)] == []


def test_the_guide_has_every_option_of_spark_with_its_default() -> None:
    defaults: dict[str, str] = {}
    for line in GUIDE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) in (3, 4):
            defaults |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), cells[-2])
    names = [option.name for option in OPTIONS if option.name not in ("password", "token")]
    assert [name for name in names if not defaults.get(name)] == []
