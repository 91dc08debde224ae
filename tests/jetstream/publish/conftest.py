"""Fixtures for the tests of publishing."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest


@pytest.fixture
async def unhandled() -> AsyncIterator[list[dict[str, Any]]]:
    """The loop reports no error, above all none of a future that nobody awaited."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    yield complaints
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
