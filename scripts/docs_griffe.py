"""An extension of griffe, which reads the code for the reference of the documentation site.

It shows what help() shows and the syntax alone does not: options that a signature gathers in a TypedDict,
`a, b: text` in a docstring as text about both, and methods of the blocking API that are derived from those of
the asyncio API, with their docstrings. Nothing is imported.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import griffe

MIRROR = "jetspark.blocking.mirror"
#: What derives a method from one of the asyncio API, the first argument; the second one makes its result.
DERIVES = {
    f"{MIRROR}.calls",
    f"{MIRROR}.iterates",
    f"{MIRROR}.makes",
    "jetspark.blocking.connection._connects",
}
#: Labels that say where an attribute is assigned. Readers need only `property`, `async` and the like.
PLACES = {"class-attribute", "instance-attribute", "module-attribute"}
#: An entry of a docstring that is about several names.
SEVERAL = re.compile(r"^( +)(\w+(?:, \w+)+):((?:.*)(?:\n\1 +.*)*)", re.MULTILINE)


class Reading(griffe.Extension):
    """Completes the package when all of it is loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        if pkg.path != "jetspark":
            return
        code = list(_objects(pkg))
        for each in code:
            if isinstance(each, griffe.Function):
                _spread_options(each)
            each.labels -= PLACES
            if each.docstring is not None:
                each.docstring.value = SEVERAL.sub(_one_by_one, each.docstring.value)
        _wrap(pkg["client.from_env"])
        words = _Words(pkg[MIRROR.removeprefix("jetspark.")])
        for each in code:
            if each.path.startswith("jetspark.blocking."):
                _mirror(each, words)


def _objects(module: griffe.Module) -> Iterator[griffe.Object]:
    """Every object of a package, but not what is imported."""
    waiting: list[griffe.Object] = [module]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [member for member in each.members.values() if not member.is_alias]


def _one_by_one(found: re.Match[str]) -> str:
    return "\n".join(f"{found[1]}{name}:{found[3]}" for name in found[2].split(", "))


def _spread_options(function: griffe.Function) -> None:
    """Put the options of `**options: Unpack[Options]` into the signature."""
    for gathered in list(function.parameters):
        annotation = gathered.annotation
        if gathered.kind is not griffe.ParameterKind.var_keyword or not str(annotation).startswith("Unpack["):
            continue
        options = function.modules_collection[annotation.slice.canonical_path]
        del function.parameters[gathered.name]
        for option in options.attributes.values():
            function.parameters[option.name] = griffe.Parameter(
                option.name,
                annotation=option.annotation,
                kind=griffe.ParameterKind.keyword_only,
                default="...",
            )


def _wrap(target: griffe.Attribute) -> None:
    """Make `name = wrapper(function)` a function, with the docstring of the one that the wrapper defines."""
    wrapper, wrapped = (
        _find(target, each.canonical_path) for each in (target.value.function, target.value.arguments[0])
    )
    inner = ast.parse(textwrap.dedent(wrapper.source)).body[0].body[0]
    _replace(target, wrapped, wrapped.returns, griffe.Docstring(ast.get_docstring(inner) or ""))


def _replace(
    target: griffe.Attribute, source: griffe.Function, returns: Any, docstring: griffe.Docstring | None
) -> None:
    """Put a function with the parameters of another one in the place of an attribute."""
    function = griffe.Function(
        target.name,
        lineno=target.lineno,
        endlineno=target.endlineno,
        parameters=source.parameters,
        returns=returns,
        docstring=docstring,
    )
    assert target.parent is not None
    target.parent.set_member(target.name, function)
    if docstring is not None:
        docstring.parent = function


class _Words:
    """The words in which the blocking API has the docstrings of the asyncio API, as `mirror` has them."""

    def __init__(self, mirror: griffe.Module) -> None:
        self.words = ast.literal_eval(str(mirror["WORDS"].value))
        self.left_out = re.compile(ast.literal_eval(str(mirror["_ASYNCIO_ONLY"].value.arguments[0])))

    def docstring(self, source: griffe.Object) -> griffe.Docstring | None:
        if source.docstring is None:
            return None
        text = self.left_out.sub("", source.docstring.value)
        for asynchronous, blocking in self.words:
            text = text.replace(asynchronous, blocking)
        return griffe.Docstring(text, lineno=source.docstring.lineno)


def _mirror(target: griffe.Object, words: _Words) -> None:
    if isinstance(target, griffe.Attribute):
        _derive(target, words)
        return
    for decorator in getattr(target, "decorators", ()):
        if decorator.callable_path == f"{MIRROR}.mirrors":
            source = _find(target, decorator.value.arguments[0].canonical_path)
            _describe(target, source, words)
            for name, member in target.members.items():
                if name in source.all_members and not member.is_alias:
                    _describe(member, source.all_members[name], words)


def _describe(target: griffe.Object, source: griffe.Object, words: _Words) -> None:
    if target.docstring is None and (docstring := words.docstring(source)) is not None:
        target.docstring, docstring.parent = docstring, target


def _derive(target: griffe.Attribute, words: _Words) -> None:
    """Make `name = calls(aio.Class.name)` a function."""
    call = target.value
    if not isinstance(call, griffe.ExprCall) or call.canonical_path not in DERIVES:
        return
    method, *result = call.arguments
    source = _find(target, method.canonical_path)
    returns: Any = source.returns
    if call.canonical_path.endswith("._connects"):
        returns = "Connection"
    elif result and not isinstance(result[0], griffe.ExprKeyword):
        made = _find(target, result[0].canonical_path)
        returns = made.returns if isinstance(made, griffe.Function) else made.name
    elif call.canonical_path.endswith(".iterates"):
        returns = re.sub(r"\bAsyncIterator\b", "Iterator", str(returns))
    _replace(target, source, returns, words.docstring(source))


def _find(near: griffe.Object, path: str) -> Any:
    """An object by its path; methods that a class inherits too."""
    parent, _, name = path.rpartition(".")
    found = near.modules_collection[parent].all_members[name]
    return found.final_target if found.is_alias else found
