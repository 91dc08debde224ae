"""Documentation is written once, on the asynchronous classes. Here it is put on the blocking ones."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["WORDS", "mirrors", "plain_doc"]

T = TypeVar("T")

#: Words of asyncio, and the same for threads.
WORDS: Final = (("async with", "with"), ("async for", "for"), ("await ", ""), ("cancelled", "interrupted"))
#: A sentence that holds for asyncio alone. The blocking docstrings leave it out.
_ASYNCIO_ONLY: Final = re.compile(r"\s*With asyncio, [^.]*\.")


def plain_doc(text: str | None) -> str | None:
    """Return a docstring of the asynchronous API in the words of the blocking one."""
    if text is not None:
        text = _ASYNCIO_ONLY.sub("", text)
        for asynchronous, blocking in WORDS:
            text = text.replace(asynchronous, blocking)
    return text


def mirrors(source: object) -> Callable[[T], T]:
    """Give a class and its members, or a function, the docstrings of `source` where they have none."""

    def decorate(target: T) -> T:
        if target.__doc__ is None:
            target.__doc__ = plain_doc(source.__doc__)
        if inspect.isclass(target):
            for name, member in list(vars(target).items()):
                if (inspect.isfunction(member) or isinstance(member, property)) and member.__doc__ is None:
                    member.__doc__ = plain_doc(getattr(getattr(source, name, None), "__doc__", None))
        return target

    return decorate
