"""The scenarios of `make torture` that say most, in their shortest form: real processes, a real server, real harm."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, Final

import pytest
from torture.database import Deaf, Restart
from torture.network import LostAnswers
from torture.roster import SCENARIOS
from torture.run import Result, run
from torture.workers import Kill, Zombie

from torture import server as servers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torture.scenario import Scenario
    from torture.server import Server

PATIENCE: Final = 3.0
"""Times the bound: other tests use the machine, too. `make torture` holds the bounds themselves."""


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    choice = os.environ.get("ROWLOCK_TEST_PG", "")
    name = f"test-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with servers.postgres("auto" if choice == "15" else "embedded", name) as server:
        yield server


class ShortKill(Kill):
    seconds: ClassVar = (3.0, 3.0)


class ShortLostAnswers(LostAnswers):
    seconds: ClassVar = (3.0, 3.0)


class ShortRestart(Restart):
    seconds: ClassVar = (1.0, 1.0)


class ShortDeaf(Deaf):
    seconds: ClassVar = (3.0, 3.0)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "scenario", [ShortKill, Zombie, ShortRestart, ShortDeaf, ShortLostAnswers], ids=lambda scenario: scenario.name
)
async def test_every_promise_is_kept(scenario: type[Scenario], own_server: Server) -> None:
    result = await run(scenario(), own_server, scenario.seconds[0], warm=15, after=1.0)
    assert result.violations == []
    assert result.recovery <= PATIENCE * result.bound
    assert did_harm(result), result


def did_harm(result: Result) -> bool:
    """A fault that nobody felt proves nothing."""
    if result.scenario == "zombie":
        return result.lost > 0
    if result.scenario == "kill":
        return result.notes["killed"] > 1
    if result.scenario == "restart":
        return result.notes["stopped"] > 0
    return result.notes.get("lost answers", result.notes.get("ended", 0.0)) > 0


def test_every_scenario_says_what_it_does_and_where_its_bound_comes_from() -> None:
    assert len(SCENARIOS) >= 16
    for scenario in SCENARIOS.values():
        assert scenario.does
        assert scenario.why
        assert scenario.bound > 0
