"""The exception tree: as drawn, and whole after pickling. New classes are covered without an edit here."""

from __future__ import annotations

import builtins
import copy
import inspect
import pickle
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from jetspark import errors
from jetspark.cli.ui.failure import describe
from jetspark.errors import Error
from tests.support.cases import for_each
from tests.support.golden import Golden

CLASSES: list[type[Error]] = [getattr(errors, name) for name in errors.__all__]

# A value for each annotation that a constructor uses, so that every attribute is carried by the tests.
SAMPLES = {
    "str": "orders.new",
    "str | None": "orders.new",
    "int": 7,
    "int | None": 7,
    "float": 1.5,
    "float | None": 1.5,
    "bool": True,
    "datetime | None": datetime(2026, 1, 1, tzinfo=UTC),
    "tuple[str, ...]": ("ORDERS", "ARCHIVE"),
    "Mapping[str, tuple[object, object]] | None": {"ack_wait": (30.0, 5.0)},
}

every_class = for_each("cls", CLASSES, ids=lambda cls: cls.__name__)


def arguments(cls: type[Error]) -> dict[str, Any]:
    """Arguments for each parameter of a constructor, none of them the default."""
    fixed = {"message": "it broke", "hint": "Mend it"}
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: fixed[p.name] if p.name in fixed else SAMPLES[p.annotation] for p in parameters}


def drawn_tree() -> dict[str, tuple[str | None, str | None]]:
    """The drawing in the module's docstring: name -> (parent, builtin in parentheses)."""
    drawing = re.search(r"```\n(.*?)```", inspect.getdoc(errors) or "", re.DOTALL)
    assert drawing, "jetspark.errors has no drawing between ``` lines"
    tree: dict[str, tuple[str | None, str | None]] = {}
    ancestors: list[str] = []
    for line in drawing[1].splitlines():
        parsed = re.match(
            r"(?P<branch>(?:[│ ] {3})*(?:[├└]── )?)(?P<name>\w+)(?: \((?P<builtin>\w+)\))?  +\S", line
        )
        assert parsed, f"not a line of the tree: {line!r}"
        depth = len(parsed["branch"]) // 4
        assert depth <= len(ancestors), f"hangs in the air: {line!r}"
        assert parsed["name"] not in tree, f"drawn twice: {line!r}"
        ancestors[depth:] = [parsed["name"]]
        tree[parsed["name"]] = (ancestors[depth - 1] if depth else None, parsed["builtin"])
    return tree


def test_all_lists_every_exception_of_the_module() -> None:
    defined = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Error)
    }
    assert set(errors.__all__) == defined


def test_the_drawing_shows_every_class_under_its_parent() -> None:
    parents = {
        cls.__name__: next((base.__name__ for base in cls.__bases__ if issubclass(base, Error)), None)
        for cls in CLASSES
    }
    assert {name: parent for name, (parent, _) in drawn_tree().items()} == parents


def test_what_users_see_of_every_error(golden: Golden) -> None:
    """The classes as a tree, and the numbers of the server: what is kept, said, and printed by a command."""
    tree = drawn_tree()
    lines = ["# Classes", ""]
    for name, (_, builtin) in tree.items():
        cls: type[Error] = getattr(errors, name)
        indent = "    " * (sum(base in CLASSES for base in cls.__mro__) - 1)
        error = cls(**arguments(cls) | {"hint": None})
        line, code = describe(error)
        kept = [attribute for attribute in arguments(cls) if attribute not in ("message", "hint")]
        lines.append(f"{indent}{name}" + (f" ({builtin})" if builtin else ""))
        lines.append(f"{indent}  exit code {int(code)}" + (", transient" if cls.transient else ""))
        lines += [f"{indent}  attributes {', '.join(kept)}"] if kept else []
        lines += [f"{indent}  jetspark: {line}"] if line != str(error) else []
    lines += ["", "# Numbers of the server", ""]
    for number in sorted(errors._CLASSES.keys() | errors._HINTS.keys()):
        said = errors._ONLY_WITH.get(number, ("refused",))[0]
        answer = {"code": 400, "err_code": number, "description": said}
        refused = errors.APIError.from_wire(answer, stream="ORDERS")
        line, code = describe(refused)
        lines += [f"{number} {type(refused).__name__}, exit code {int(code)}", f"    {refused}"]
        lines += [f"    jetspark: {line}"] if line != str(refused) else []
    golden("errors", "\n".join(lines))


@every_class
def test_the_drawing_names_the_builtin_that_a_class_adds(cls: type[Error]) -> None:
    _, drawn = drawn_tree()[cls.__name__]
    added = [base for base in cls.__bases__ if not issubclass(base, Error) and base is not Exception]
    assert (drawn is not None) == bool(added)
    if drawn is not None:
        assert all(issubclass(base, getattr(builtins, drawn)) for base in added)


@every_class
def test_pickling_keeps_message_hint_and_attributes(cls: type[Error]) -> None:
    given = arguments(cls)
    error = cls(**given)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        restored = pickle.loads(pickle.dumps(error, protocol))
        assert type(restored) is cls
        assert str(restored) == str(error)
        assert restored.args == error.args
        assert vars(restored) == vars(error)
        attributes = {name: getattr(restored, name) for name in given if name != "message"}
        assert attributes == {name: value for name, value in given.items() if name != "message"}


@every_class
def test_copying_keeps_message_hint_and_attributes(cls: type[Error]) -> None:
    error = cls(**arguments(cls))
    copied = copy.copy(error)
    assert (type(copied), str(copied), vars(copied)) == (cls, str(error), vars(error))


def test_pickling_keeps_what_a_slow_consumer_missed() -> None:
    restored = pickle.loads(
        pickle.dumps(errors.SlowConsumer("full", subject="orders.>", dropped=3, hint="Read faster"))
    )
    assert (restored.subject, restored.dropped, restored.hint) == ("orders.>", 3, "Read faster")


@every_class
def test_str_is_the_message_and_then_the_hint(cls: type[Error]) -> None:
    given = arguments(cls)
    assert str(cls(**given)).endswith(". Mend it")
    assert "it broke" in str(cls(**given))
    assert "it broke" in str(cls(**given | {"hint": None}))
    assert "None" not in str(cls(**given | {"hint": None}))


@for_each(
    ("cls", "builtin"),
    [
        (errors.Timeout, TimeoutError),
        (errors.UsageError, ValueError),
        (errors.ConnectionError, builtins.ConnectionError),
        (errors.ConnectionError, OSError),
    ],
)
def test_who_knows_only_the_builtin_catches_ours(cls: type[Error], builtin: type[Exception]) -> None:
    with pytest.raises(builtin, match="it broke"):
        raise cls("it broke")
