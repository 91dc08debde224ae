"""Which features a server has: that follows from the level of its JetStream API, or from its version."""

from __future__ import annotations

from jetspark.core.server_info import Feature, ServerInfo
from tests.support.cases import for_each


@for_each(("level", "supported"), [(0, False), (1, False), (2, True), (3, True), (5, True)])
@for_each("version", ["2.2.0", "2.11.4", "2.15.1", "", "unknown"])
def test_a_feature_is_supported_from_its_level_on_whatever_the_version_says(
    level: int, supported: bool, version: str
) -> None:
    info = ServerInfo(version=version, api_level=level)
    assert info.supports(Feature.ATOMIC_BATCH) is supported


@for_each(
    ("version", "supported"),
    [
        ("2.8.4", False),
        ("2.9.0", True),
        ("2.9.0-RC.3", True),
        ("2.10-dev", True),
        ("3.0.0", True),
        ("1.4.1", False),
        ("", True),
        ("unknown", True),
    ],
)
def test_what_is_older_than_the_levels_follows_from_the_version(version: str, supported: bool) -> None:
    assert ServerInfo(version=version).supports(Feature.CONSUMER_NAMES) is supported


def test_a_server_that_states_a_level_has_everything_from_before_the_levels() -> None:
    assert ServerInfo(version="2.8.4", api_level=1).supports(Feature.CONSUMER_NAMES)


def test_the_level_is_read_from_info() -> None:
    assert ServerInfo.parse(b'{"api_lvl": 5}').api_level == 5
    assert ServerInfo.parse(b"{}").api_level == 0


def test_a_feature_names_the_version_that_it_needs() -> None:
    assert Feature.BATCH_DIRECT_GET.since == "2.11"
