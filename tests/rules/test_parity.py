"""The blocking API is the asynchronous one without `await`: the same names, parameters and docstrings.

Derived methods take parameters and docstrings from the asynchronous ones; those written by hand could differ.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import jetspark
from jetspark import blocking, client
from jetspark.blocking.mirror import WORDS, plain_doc
from jetspark.core import message as core_message
from jetspark.core import subscription
from jetspark.jetstream import advisories, consumer, context, stream
from jetspark.jetstream.kv import cache, store, watch
from jetspark.jetstream.message import delivered
from jetspark.jetstream.objects import reader as object_reader
from jetspark.jetstream.objects import store as object_store
from jetspark.jetstream.ordered import pull as ordered
from jetspark.jetstream.publish import atomic, publisher
from jetspark.jetstream.pull import iterate
from jetspark.jetstream.push import subscription as push
from jetspark.jetstream.subscribe import pull as pull_subscription
from tests.support.cases import for_each

PAIRS: dict[type, type] = {
    client.Connection: blocking.Connection,
    subscription.Subscription: blocking.Subscription,
    core_message.Msg: blocking.Msg,
    delivered.JetStreamMsg: blocking.JetStreamMsg,
    delivered.Batch: blocking.Batch,
    context.JetStream: blocking.JetStream,
    stream.Stream: blocking.Stream,
    consumer.Consumer: blocking.Consumer,
    ordered.OrderedConsumer: blocking.OrderedConsumer,
    iterate.Messages: blocking.Messages,
    iterate.Consuming: blocking.Consuming,
    publisher.Publisher: blocking.Publisher,
    atomic.AtomicBatch: blocking.AtomicBatch,
    store.KeyValue: blocking.KeyValue,
    watch.KeyValueWatch: blocking.KeyValueWatch,
    cache.KeyValueCache: blocking.KeyValueCache,
    object_store.ObjectStore: blocking.ObjectStore,
    object_store.ObjectWatch: blocking.ObjectWatch,
    object_reader.ObjectReader: blocking.ObjectReader,
    advisories.Advisories: blocking.Advisories,
    push.PushSubscription: blocking.PushSubscription,
    pull_subscription.PullSubscription: blocking.PullSubscription,
}

_LOOP = "runs in the loop; for the layers above, not for users"
_RECEIVER = "the session calls it in the loop"
_THREADS = "the blocking API calls it to hand messages to a thread"
_ATTRIBUTE = "a plain attribute of the asynchronous class"

# The public names that only one side has: why, and of which class.
DIFFERENCES: dict[str, dict[type, str]] = {
    _LOOP: {
        client.Connection: (
            "open report frame drain_subscriptions drain_until publish_block request_block class_of"
        ),
        atomic.AtomicBatch: "add_block",
        context.JetStream: "api",
    },
    _RECEIVER: {
        subscription.Subscription: (
            "cancel closed deliver disconnected join publish_refused reconnected remaining"
        ),
        push.PushSubscription: (
            "cancel closed deliver disconnected join publish_refused reconnected remaining"
        ),
        advisories.Advisories: "end take",
    },
    _THREADS: {
        subscription.Subscription: "hand_to take",
        push.PushSubscription: "give_back hand_to take",
        iterate.Messages: "notify put_back take",
        publisher.Publisher: "frame",
        watch.KeyValueWatch: "take",
        object_store.ObjectWatch: "take",
    },
    _ATTRIBUTE: {
        blocking.OrderedConsumer: "stream_name",
        blocking.AtomicBatch: "ack",
    },
    "the steps of `subscribe`": {push.PushSubscription: "abandon begin bind"},
    "starts the thread of the callback": {blocking.Subscription: "open", blocking.PushSubscription: "open"},
    "stops returning messages when the connection closes": {blocking.Messages: "halt"},
}

PACKAGE = Path(jetspark.__file__).parent

DUNDERS = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "__len__": "__len__",
}


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Replace the check for leftovers: these many tests start nothing."""


def public_names(cls: type) -> set[str]:
    """Return the names that users can call or read, of the class and of its bases in jetspark."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("jetspark")]
    return {
        name
        for base in ours
        for name, value in vars(base).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property | classmethod))
    }


def differences(cls: type) -> set[str]:
    return {name for rows in DIFFERENCES.values() for name in rows.get(cls, "").split()}


def shared() -> Iterator[tuple[type, type, str]]:
    for asynchronous, plain in PAIRS.items():
        for name in sorted(public_names(asynchronous) & public_names(plain)):
            yield asynchronous, plain, name


SHARED = [pytest.param(*row, id=f"{row[1].__name__}.{row[2]}") for row in shared()]


def test_every_asynchronous_class_of_the_public_api_has_a_blocking_one() -> None:
    asynchronous = {
        value
        for name in vars(jetspark)["__all__"]
        if inspect.isclass(value := getattr(jetspark, name))
        and any(
            inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
            for member in vars(value).values()
        )
    }
    assert asynchronous - set(PAIRS) == set()


def test_every_blocking_class_is_compared_here() -> None:
    classes = {getattr(blocking, name) for name in blocking.__all__ if name[0].isupper()}
    assert classes == set(PAIRS.values())


@for_each("asynchronous", PAIRS, ids=lambda cls: cls.__name__)
def test_names_are_the_same(asynchronous: type) -> None:
    plain = PAIRS[asynchronous]
    missing = public_names(asynchronous) - public_names(plain)
    added = public_names(plain) - public_names(asynchronous)
    assert missing == differences(asynchronous)
    assert added == differences(plain)


@for_each("asynchronous", PAIRS, ids=lambda cls: cls.__name__)
def test_context_managers_iterators_and_lengths_are_the_same(asynchronous: type) -> None:
    expected = {plain for name, plain in DUNDERS.items() if hasattr(asynchronous, name)}
    found = {name for name in DUNDERS.values() if hasattr(PAIRS[asynchronous], name)}
    assert found - set(dir(list)) == expected - set(dir(list))


@for_each(("asynchronous", "plain", "name"), SHARED)
def test_parameters_are_the_same(asynchronous: type, plain: type, name: str) -> None:
    theirs, ours = getattr(asynchronous, name), getattr(plain, name)
    assert isinstance(ours, property) == isinstance(theirs, property)
    if not isinstance(ours, property):
        assert parameters(ours) == parameters(theirs)


def test_connect_takes_the_same_parameters() -> None:
    assert parameters(blocking.connect) == parameters(jetspark.connect)
    assert inspect.signature(blocking.connect).return_annotation == "Connection"


def parameters(function: Any) -> list[tuple[Any, ...]]:
    """Return names, kinds, defaults and annotations of the parameters."""
    return [
        (parameter.name, parameter.kind, parameter.default, parameter.annotation)
        for parameter in inspect.signature(function).parameters.values()
    ]


@for_each(("asynchronous", "plain", "name"), SHARED)
def test_results_are_the_same_without_await(asynchronous: type, plain: type, name: str) -> None:
    theirs, ours = getattr(asynchronous, name), getattr(plain, name)
    if isinstance(theirs, property):
        theirs, ours = theirs.fget, ours.fget
    expected = inspect.signature(theirs).return_annotation
    for pattern, result in (
        (r"^Awaitable\[(.*)\]$", r"\1"),
        (r"\bAsyncIterator\b", "Iterator"),
        (r"\basyncio\.Future\b", "Future"),
    ):
        expected = re.sub(pattern, result, expected)
    assert inspect.signature(ours).return_annotation == expected
    assert not inspect.iscoroutinefunction(ours)


@for_each(("asynchronous", "plain", "name"), SHARED)
def test_docstrings_are_the_same(asynchronous: type, plain: type, name: str) -> None:
    assert getattr(plain, name).__doc__
    assert getattr(plain, name).__doc__ == plain_doc(getattr(asynchronous, name).__doc__)


@for_each("words", [words for words, _ in WORDS])
def test_every_replaced_word_is_needed(words: str) -> None:
    texts = [getattr(asynchronous, name).__doc__ or "" for asynchronous, _, name in shared()]
    texts += [value.__doc__ or "" for value in (*PAIRS, jetspark.connect, jetspark.ack_all)]
    assert any(words in text for text in texts)


@for_each(("asynchronous", "plain", "name"), SHARED)
def test_a_method_is_derived_from_the_method_of_its_own_name(
    asynchronous: type, plain: type, name: str
) -> None:
    if not isinstance(member := getattr(plain, name), property):
        assert member.__name__ == name


def test_methods_that_only_delegate_are_derived() -> None:
    """`calls`, `iterates` and `makes` replace a method whose body is one call of its asynchronous twin."""
    by_hand = [
        f"{cls.name}.{method.name}"
        for module in blocking_modules()
        for cls in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
        if re.fullmatch(
            rf"(return )?self\._bridge\.run\(self\._inner\.{method.name}\(.*\)\)",
            ast.unparse(ast.Module(method.body, [])),
        )
    ]
    assert by_hand == []


def documented() -> Iterator[tuple[str, str]]:
    for name in blocking.__all__:
        value = getattr(blocking, name)
        yield name, value.__doc__
        if inspect.isclass(value):
            for member in sorted(public_names(value)):
                yield f"{name}.{member}", getattr(value, member).__doc__


@for_each(("name", "text"), list(documented()))
def test_no_blocking_docstring_mentions_asyncio(name: str, text: str) -> None:
    assert text
    found = re.findall(r"\b(?:a?sync\w*|await\w*|coroutines?|tasks?|turn|event loop)\b", text.lower())
    assert [word for word in found if word not in ("ack_sync",)] == []


def test_no_docstring_is_written_twice() -> None:
    """Methods of blocking classes take their docstrings from the asynchronous ones."""
    sources = "".join(inspect.getsource(module) for module in blocking_modules())
    repeated = [
        f"{asynchronous.__name__}.{name}"
        for asynchronous, _, name in shared()
        if (text := getattr(asynchronous, name).__doc__) and f'"""{text.splitlines()[0]}' in sources
    ]
    assert repeated == []


def blocking_modules() -> list[ModuleType]:
    return [
        importlib.import_module(f"jetspark.blocking.{found.name}")
        for found in pkgutil.iter_modules(blocking.__path__)
    ]


def test_module_docstrings_name_files_that_exist() -> None:
    named = [
        path
        for module in blocking_modules()
        for sentence in re.findall(r"Twin of ([^.]*\.py`(?: and `[^`]*`)?)", module.__doc__ or "")
        for path in re.findall(r"`([^`]*)`", sentence)
    ]
    assert len(named) >= 12
    assert [path for path in named if not (PACKAGE / path).is_file()] == []
