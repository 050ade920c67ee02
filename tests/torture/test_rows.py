"""Bad rows, a full queue of notifications and jobs that kill their worker, under load, in their shortest form."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

import pytest
from torture.poison import PoisonedHost
from torture.rows import NEIGHBOURS, HeldRow, QueueFull, RefusedRow
from torture.run import run

from torture import server as servers
from torture.stage import Failed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torture.scenario import Scenario
    from torture.server import Server

PATIENCE = 3.0
"""Times the bound: other tests use the machine, too. `make torture` holds the bounds themselves."""
LATE = "a job beside the fault took"


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    choice = os.environ.get("ROWLOCK_TEST_PG", "")
    name = f"test-rows-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with servers.postgres("auto" if choice == "15" else "embedded", name) as server:
        yield server


class ShortHeldRow(HeldRow):
    seconds: ClassVar = (4.0, 4.0)


class ShortRefusedRow(RefusedRow):
    seconds: ClassVar = (3.0, 3.0)


class ShortQueueFull(QueueFull):
    seconds: ClassVar = (3.0, 3.0)


class ShortPoisonedHost(PoisonedHost):
    seconds: ClassVar = (1.0, 1.0)
    jobs: ClassVar = 1


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "scenario", [ShortHeldRow, ShortRefusedRow, ShortQueueFull, ShortPoisonedHost], ids=lambda scenario: scenario.name
)
async def test_every_promise_is_kept_and_neighbours_are_unharmed(scenario: type[Scenario], own_server: Server) -> None:
    try:
        result = await run(scenario(), own_server, scenario.seconds[0], warm=15, after=1.0)
    except Failed as failure:
        if "PostgreSQL 17" not in str(failure):
            raise
        pytest.skip(str(failure))
    assert [violation for violation in result.violations if LATE not in violation] == []
    assert result.recovery <= PATIENCE * result.bound
    assert result.notes.get("longest wait of a neighbour", 0.0) <= PATIENCE * NEIGHBOURS
    assert max(result.notes.get(name, 0.0) for name in ("held", "rows refused", "queue", "workers killed")) > 0
