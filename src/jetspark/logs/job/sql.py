"""Spark's SQL functions and types, loaded when a job uses them: `pipeline check` works without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["F", "types"]

if TYPE_CHECKING:
    from pyspark.sql import functions as F
    from pyspark.sql import types
else:
    import importlib

    class _Lazy:
        """A module that is imported with the first name that is taken from it."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self._name), name)
            setattr(self, name, value)
            return value

    F = _Lazy("pyspark.sql.functions")
    types = _Lazy("pyspark.sql.types")
