"""Users' functions: all are called, and an error of one of them is only logged."""

from __future__ import annotations

import asyncio
import gc

import pytest

from jetspark import UsageError
from jetspark.core.callbacks import Callbacks
from tests.support.untyped import untyped


async def test_an_error_of_a_function_is_logged_and_the_others_are_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    uncaught: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
    called: list[int] = []

    def fail(_: int) -> None:
        raise RuntimeError("plain")

    async def fail_later(_: int) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("coroutine")

    async def succeed(argument: int) -> None:
        called.append(argument)

    callbacks: Callbacks[[int]] = Callbacks("on_something")
    for function in (fail, fail_later, called.append, succeed):
        callbacks.add(function)
    callbacks.call(7)
    while callbacks.running:
        await asyncio.sleep(0)
    gc.collect()
    assert called == [7, 7]
    assert [record.getMessage() for record in caplog.records] == ["on_something failed"] * 2
    assert "plain" in caplog.text
    assert "coroutine" in caplog.text
    assert uncaught == []


async def test_functions_come_and_go() -> None:
    callbacks: Callbacks[[int]] = Callbacks("on_something")
    removed: list[int] = []
    remove = callbacks.add(removed.append)
    callbacks.call(1)
    remove()
    remove()
    callbacks.call(2)
    assert removed == [1]
    with pytest.raises(UsageError, match="on_something must be a function, not int"):
        callbacks.add(untyped(3))
