"""The reference of the documentation site has every public name. `make docs` finds wrong links and names."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import jetspark
import jetspark.arrow
import jetspark.blocking
import jetspark.errors
import jetspark.otel
import jetspark.server
import jetspark.spark
from tests.support.cases import for_each

API = Path(__file__).parents[2] / "docs" / "api"
#: Said in a guide: they are no classes or functions.
ELSEWHERE = {"__compiled__", "__version__", "blocking", "server"}


def entries() -> list[str]:
    return [name for page in API.glob("*.md") for name in re.findall(r"^::: (\S+)", page.read_text(), re.M)]


@for_each(
    "package",
    [jetspark, jetspark.blocking, jetspark.otel, jetspark.server, jetspark.spark],
    ids=lambda each: each.__name__,
)
def test_every_public_name_is_in_the_reference(package: ModuleType) -> None:
    names = set(package.__all__) - ELSEWHERE - set(jetspark.errors.__all__)
    prefix = f"{package.__name__}."
    shown = {name.removeprefix(prefix) for name in entries() if name.startswith(prefix)}
    assert names == {name for name in shown if "." not in name and name not in ("arrow", "errors")}


def test_whole_modules_are_in_the_reference() -> None:
    assert {"jetspark.errors", "jetspark.arrow"} <= set(entries())


def test_no_name_is_there_twice() -> None:
    assert len(entries()) == len(set(entries()))
