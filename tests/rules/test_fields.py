"""`help()` says of every setting what it is, with unit and default, and names no type of the wire."""

from __future__ import annotations

import inspect
import pydoc
import re

import pytest

from jetspark import ConsumerConfig, JetStream, StreamConfig, StreamSource, server
from jetspark.client import connect
from jetspark.jetstream.manage.consumers import OrderedKeywords
from jetspark.jetstream.pull.options import PullKeywords
from jetspark.jetstream.push.options import PushKeywords
from jetspark.server.options import OptionNames

CONFIGS = [StreamConfig, ConsumerConfig, StreamSource]


def documented(text: str, section: str) -> dict[str, str]:
    """The entries of a section of a docstring; `a, b: text` is about both."""
    body = inspect.cleandoc(text).partition(f"{section}:\n")[2]
    entries = re.findall(r"^    (\w+(?:, \w+)*):((?:.*)(?:\n {8}.*)*)", body, re.MULTILINE)
    return {name: " ".join(said.split()) for names, said in entries for name in names.split(", ")}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_field_of_a_configuration_is_documented(config: type) -> None:
    said = documented(config.__doc__ or "", "Attributes")
    assert list(said) == [name for name in config.__struct_fields__ if name != "extra"]  # type: ignore[attr-defined]
    for field, annotation in config.__annotations__.items():
        if "Duration" in str(annotation):
            assert re.search(r"\bseconds\b", said[field], re.IGNORECASE), f"{field} is in seconds"


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_help_shows_no_type_of_the_wire(config: type) -> None:
    shown = pydoc.plain(pydoc.render_doc(config))
    assert "'ns'" not in shown
    assert "Annotated" not in shown
    assert "Meta(" not in shown
    for field in config.__struct_fields__:  # type: ignore[attr-defined]
        assert f"{field}: " in shown


@pytest.mark.parametrize(
    ("function", "keywords"),
    [
        (server.run, OptionNames),
        (JetStream.ordered_consumer, OrderedKeywords),
        (JetStream.subscribe, PushKeywords),
    ],
    ids=["server.run", "ordered_consumer", "subscribe"],
)
def test_options_that_a_signature_gathers_are_documented(function: object, keywords: type) -> None:
    said = documented(inspect.getdoc(function) or "", "Args")
    left_out = {"cluster"}  # Set by `run_cluster`.
    assert set(keywords.__annotations__) - left_out <= set(said)


def test_the_options_of_messages_are_documented() -> None:
    from jetspark import Consumer

    said = inspect.getdoc(Consumer.messages) or ""
    assert [name for name in PullKeywords.__annotations__ if not re.search(rf"\b{name}\b", said)] == []


def test_the_options_of_connect_are_documented() -> None:
    said = documented(inspect.getdoc(connect) or "", "Args")
    parameters = set(inspect.signature(connect).parameters)
    assert parameters - set(said) <= {"options"}
