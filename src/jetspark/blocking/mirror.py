"""Derives blocking methods and docstrings from the asynchronous classes, so that both are written once.

A class that delegates is a `Twin`. `calls`, `iterates` and `makes` turn a method of the asynchronous twin
into a blocking one with the same parameters, for mypy and editors too. `mirrors` copies docstrings. Methods
that need their own threads are written by hand, as are properties, which type checkers cannot derive.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

from jetspark.blocking.threads.supply import READ_AHEAD, iterate

if TYPE_CHECKING:
    from jetspark.blocking.threads.bridge import Bridge

__all__ = ["WORDS", "Twin", "calls", "iterates", "makes", "mirrors", "plain_doc", "twin"]

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: Words of asyncio, and the same for threads.
WORDS: Final = (("async with", "with"), ("async for", "for"), ("await ", ""), ("cancelled", "interrupted"))
#: A sentence that holds for asyncio alone. The blocking docstrings leave it out.
_ASYNCIO_ONLY: Final = re.compile(r"\s*With asyncio,[^.]*\.")


class Twin(Generic[T]):
    """Has `_inner`, its asynchronous twin, and `_bridge`, which runs coroutines in the loop."""

    def __init__(self, bridge: Bridge, inner: T) -> None:
        self._bridge = bridge
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)


@overload
def calls(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]: ...


@overload
def calls(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]], result: Callable[[Bridge, R], T]
) -> Callable[Concatenate[Any, P], T]: ...


def calls(method: Callable[..., Any], result: Callable[[Bridge, Any], Any] | None = None) -> Any:
    """Run a coroutine method in the loop and wait for it; `result` makes its result a blocking object."""
    name = method.__name__  # Looked up in the object: instrumentation gives it another class.
    if result is None:

        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return self._bridge.run(getattr(self._inner, name)(*args, **kwargs))
    else:

        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            made = self._bridge.run(getattr(self._inner, name)(*args, **kwargs))
            return self._bridge.connection.class_of(result)(self._bridge, made)

    return twin(method, call)


def makes(
    method: Callable[Concatenate[A, P], R], result: Callable[[Bridge, R], T], *, in_loop: bool = False
) -> Callable[Concatenate[Any, P], T]:
    """Call a plain method, if needed in the loop, and make a blocking object of its result."""

    def make(self: Any, /, *args: Any, **kwargs: Any) -> T:
        call = functools.partial(method, self._inner, *args, **kwargs)
        made = self._bridge.portal.call(call) if in_loop else call()
        wrap: Callable[[Bridge, R], T] = self._bridge.connection.class_of(result)
        return wrap(self._bridge, made)

    return twin(method, make)


def iterates(
    method: Callable[Concatenate[A, P], AsyncIterator[T]], *, ahead: int = READ_AHEAD
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Read an asynchronous iterator as a plain one, up to `ahead` items ahead."""

    def read(self: Any, /, *args: Any, **kwargs: Any) -> Iterator[T]:
        return iterate(self._bridge.portal, method(self._inner, *args, **kwargs), ahead)

    return twin(method, read)


def twin(method: Callable[..., Any], function: F, returns: str | None = None) -> F:
    """Give a blocking function the name, signature and docstring of its asynchronous method.

    `returns` replaces the annotation of the result.
    """
    signature = inspect.signature(method)
    result = returns or re.sub(r"\bAsyncIterator\b", "Iterator", str(signature.return_annotation))
    function.__name__ = method.__name__
    function.__qualname__ = method.__qualname__
    function.__doc__ = plain_doc(method.__doc__)
    function.__signature__ = signature.replace(return_annotation=result)  # type: ignore[attr-defined]
    return function


def mirrors(source: object) -> Callable[[T], T]:
    """Give a class and its members, or a function, the docstrings of `source` where they have none."""

    def decorate(target: T) -> T:
        if target.__doc__ is None:
            target.__doc__ = plain_doc(source.__doc__)
        if inspect.isclass(target):
            for name, member in list(vars(target).items()):
                if inspect.isfunction(member):
                    member.__module__ = target.__module__
                elif not isinstance(member, property):
                    continue
                if member.__doc__ is None:
                    member.__doc__ = plain_doc(getattr(getattr(source, name, None), "__doc__", None))
        return target

    return decorate


def plain_doc(text: str | None) -> str | None:
    """Return a docstring of the asynchronous API in the words of the blocking one."""
    if text is not None:
        text = _ASYNCIO_ONLY.sub("", text)
        for asynchronous, blocking in WORDS:
            text = text.replace(asynchronous, blocking)
    return text
