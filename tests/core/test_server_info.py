"""Which features a server has follows from its version."""

from __future__ import annotations

import pytest

from jetspark.core.server_info import Feature, ServerInfo


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("2.11.9", False),
        ("2.12.0", True),
        ("2.12.0-RC.3", True),
        ("2.12-dev", True),
        ("3.0.0", True),
        ("1.4.1", False),
        ("", True),
        ("unknown", True),
    ],
)
def test_a_feature_is_supported_from_its_version_on(version: str, supported: bool) -> None:
    assert ServerInfo(version=version).supports(Feature.ATOMIC_BATCH) is supported


def test_a_feature_names_the_version_that_it_needs() -> None:
    assert Feature.BATCH_DIRECT_GET.since == "2.11"
