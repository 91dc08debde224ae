"""Fixtures of the fault tests: servers without JetStream, which is not looked at here and starts slower."""

from __future__ import annotations

import pytest

from tests.support.ledger import Ledger
from tests.support.watch import Watch


@pytest.fixture
def nats_server_options() -> dict[str, object]:
    return {"jetstream": False}


@pytest.fixture(scope="module")
def nats_cluster_options() -> dict[str, object]:
    return {"jetstream": False}


@pytest.fixture
async def watch() -> Watch:
    return Watch()


@pytest.fixture
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """An empty ledger. `make test` has the same randomness every time; `make test-faults` has not."""
    return Ledger(seed=None if request.node.get_closest_marker("faults") else 1)
