"""Documentation is written once, on the asynchronous classes. Here it is put on the blocking ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["WORDS", "mirrors", "plain_doc"]

T = TypeVar("T")

#: What is said of asyncio, and what is said here. In this order: the longer ones first.
WORDS: Final = (
    (
        "Awaiting the result waits for back-pressure; a program that publishes much should. While the\n"
        "        connection is down messages wait, up to `pending_size` bytes, and are sent in order after "
        "it is back.",
        "Waits while much is queued, up to `drain_timeout` seconds, then raises `Timeout`; the message\n"
        "        stays queued. What is queued while the connection is down is sent in order later.",
    ),
    ("Awaiting the result, which is optional, waits for\n        back-pressure.", "Waits for back-pressure."),
    ("Awaiting the result, which is optional, waits for back-pressure.", "Waits for back-pressure."),
    ("Awaiting the result, which is optional, waits for that.", "Waits for that."),
    (" Like `Connection.publish`, awaiting it is optional.", ""),
    (" Awaiting it is optional.", ""),
    ("is queued and written within this turn of the event loop", "is queued, and written soon"),
    ("which need not be awaited", "which need not be waited for"),
    ("Plain or coroutine functions, called", "Plain functions, called in a thread of their own"),
    ("a plain or coroutine `callback`, which is", "a `callback`, which is, in a thread of its own,"),
    ("a plain or coroutine function,", "a plain function, in a thread of its own"),
    ("a plain or coroutine function", "a plain function, in a thread of its own,"),
    ("Callbacks are cancelled.", "Callbacks and handlers that run get moments to finish."),
    ("is cancelled", "is interrupted"),
    (" (when awaited)", ""),
    ("async with", "with"),
    ("async for", "for"),
    ("await ", ""),
)


def plain_doc(text: str | None) -> str | None:
    """A docstring of the asynchronous API in the words of the blocking one."""
    if text is not None:
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
