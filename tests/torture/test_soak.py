"""The soak's judge on series made by hand, and a short real soak in which one worker leaks on purpose."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from torture.evidence import Attempt, Evidence, Row
from torture.soak.app import LEAK
from torture.soak.harvest import Harvest
from torture.soak.measures import MEASURES
from torture.soak.report import chart, problems, table
from torture.soak.run import Plan, Result, soak
from torture.soak.sampler import descriptors, private, status
from torture.soak.series import Measure, Series, Verdict, judge, p99, rates, theil_sen

from torture import server as servers

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH: Final = 600.0
MEMORY: Final = Measure("memory", "MB", 3.0, 0.03)
NOISE: Final = Random(7)  # noqa: S311 - the same noise each time


def seen(value: Callable[[float], float], measure: Measure = MEMORY, *, start: float = 0.0) -> Verdict:
    """The verdict on a value that is read every second for ten minutes."""
    points = [(float(at), value(at)) for at in range(int(start), int(LENGTH))]
    return judge(Series(measure.name, "it", points), measure, 0.0, LENGTH)


def saw(at: float, period: float, height: float) -> float:
    return height * (at % period) / period


def walk(steps: int) -> list[float]:
    """Memory that goes up and down by chance around a level."""
    value, values = 0.0, []
    for _ in range(steps):
        value = 0.9 * value + NOISE.gauss(0, 1)
        values.append(80 + value)
    return values


SHAPES: Final[list[tuple[str, Callable[[float], float], str]]] = [
    ("constant", lambda _: 80.0, "flat"),
    ("noise", lambda _: 80 + NOISE.gauss(0, 10), "flat"),
    ("falls", lambda at: 80 - 0.05 * at, "flat"),
    ("garbage collection", lambda at: 80 + saw(at, 45, 30), "flat"),
    ("vacuum that comes rarely", lambda at: saw(at, 97, 5000), "flat"),
    ("a spike", lambda at: 800.0 if 550 < at < 560 else 80.0, "flat"),
    ("settles", lambda at: 80 + 5 * (1 - math.exp(-at / 60)), "flat"),
    ("an early step", lambda at: 80 + 8 * (at > 220), "step"),
    ("a late step", lambda at: 80 + 8 * (at > 420), "step"),
    ("too high a step", lambda at: 80 + 40 * (at > 420), "grows"),
    ("leaks", lambda at: 80 + 0.02 * at, "grows"),
    ("leaks under noise", lambda at: 80 + 0.02 * at + NOISE.gauss(0, 3), "grows"),
    ("leaks under a saw-tooth", lambda at: 80 + 0.03 * at + saw(at, 45, 20), "grows"),
    ("leaks in many small steps", lambda at: 80 + 2 * (at // 90), "grows"),
    ("leaks more and more", lambda at: 80 + 20 * (at / LENGTH) ** 2, "grows"),
    ("leaks from nothing", lambda at: 0.02 * at, "grows"),
]


@pytest.mark.parametrize(("shape", "found"), [shape[1:] for shape in SHAPES], ids=[shape[0] for shape in SHAPES])
def test_a_leak_grows_and_what_comes_and_goes_does_not(shape: Callable[[float], float], found: str) -> None:
    verdict = seen(shape)
    assert verdict.found == found, verdict
    assert verdict.ok == (found != "grows")


def test_chance_is_not_called_a_leak() -> None:
    verdicts = []
    for _ in range(200):
        values = walk(int(LENGTH))
        verdicts.append(seen(lambda at, values=values: values[int(at)]))  # type: ignore[misc]
    assert {verdict.found for verdict in verdicts} == {"flat"}


def test_a_longer_run_finds_a_smaller_leak() -> None:
    slow = [(float(at), 80 + at / 3600) for at in range(0, 12 * 3600, 60)]  # 1 MB an hour
    assert judge(Series("memory", "it", slow), MEMORY, 0.0, 3600.0).found == "flat"
    assert judge(Series("memory", "it", slow), MEMORY, 0.0, 12 * 3600.0).found == "grows"


def test_the_figures_of_a_verdict() -> None:
    verdict = seen(lambda at: 100 + at / 60)
    assert verdict.per_hour == pytest.approx(60)
    assert (verdict.first, verdict.last) == pytest.approx((101.66, 108.32), abs=0.1)
    assert verdict.allowed == pytest.approx(3 + 0.03 * verdict.first)
    assert verdict.used == pytest.approx(verdict.growth / verdict.allowed)


def test_what_a_thing_is_allowed_beyond_its_measure() -> None:
    points = [(float(at), 0.02 * at) for at in range(600)]
    assert judge(Series("memory", "it", points, extra=20.0), MEMORY, 0.0, LENGTH).found == "flat"


def test_what_was_there_for_half_of_the_time_is_not_judged() -> None:
    verdict = seen(lambda at: at, start=300)
    assert (verdict.found, verdict.ok, verdict.is_judged) == ("not judged", True, False)


def test_a_run_that_measured_nothing_is_not_called_good() -> None:
    good = [Verdict(name, "it", "flat") for name in MEASURES]
    result = Result(Plan(600), good, [], 10, 10, 5)
    assert result.ok
    assert not replace(result, verdicts=good[1:]).ok
    assert not replace(result, violations=["lost"]).ok
    assert not replace(result, verdicts=[*good, Verdict("rows", "jobs", "grows")]).ok
    assert "nothing could be judged" in problems(replace(result, verdicts=good[1:]))


def test_parts_of_the_judge() -> None:
    assert p99(range(1, 101)) == 99
    assert p99([7.0]) == 7
    assert rates([(0.0, 10.0), (2.0, 30.0), (3.0, 30.0)]) == [(2.0, 10.0), (3.0, 0.0)]
    line = [(float(at), 2.0 * at) for at in range(10)]
    assert theil_sen([*line[:4], (4.0, 1e6), *line[5:]]) == pytest.approx(2)


def test_what_proc_says_of_a_process() -> None:
    mine = os.getpid()
    assert status(mine)["VmRSS"] > 10_000
    assert status(mine)["Threads"] >= 1
    assert (private(mine) or 0) > 5
    before = descriptors(mine) or 0
    with open(os.devnull):  # noqa: PTH123 - a descriptor
        assert descriptors(mine) == before + 1
    assert (status(2**22 + 1), private(2**22 + 1), descriptors(2**22 + 1)) == ({}, None, None)


def test_the_harvest_keeps_what_retention_removed_and_tells_what_went_too_early() -> None:
    harvest = Harvest(keep=60)
    running, done = Row(1, "plain", "running", 1, 100.0), Row(2, "plain", "completed", 2, 100.0, 101.0)
    late = Row(3, "tick", "queued", 0, 100.0)
    harvest.take(
        Evidence(rows={1: running, 2: done, 3: late}, attempts=[Attempt(1, 0, "lost", 99.0)], edges=[(1, 2)]), 102.0
    )
    ended = replace(running, state="completed", finished_at=103.0, fence=2)
    harvest.take(Evidence(rows={1: ended, 3: late}), 110.0)
    assert harvest.early == ["job 2 was removed 9.0 s after its end"]
    harvest.take(Evidence(rows={3: late}), 170.0)
    assert len(harvest.early) == 1
    whole = harvest.whole(Evidence(), 171.0)
    assert whole.rows == {1: ended, 2: done}
    assert (len(whole.attempts), list(whole.edges), harvest.removed) == (1, [(1, 2)], 2)


@pytest.mark.parametrize(
    ("looks", "end", "counted"),
    [
        (((100.0, 100.0), (159.0, 159.0)), 218.0, {"completed": 5}),
        (((100.0, 100.0), (160.0, 160.0)), 161.0, None),
        (((100.0, 102.0), (155.0, 160.0)), 161.0, None),
        (((100.0, 100.0), (159.0, 159.0)), 219.0, None),
    ],
)
def test_counts_are_compared_unless_a_job_could_come_and_go_unseen(
    looks: tuple[tuple[float, float], ...], end: float, counted: dict[str, int] | None
) -> None:
    harvest = Harvest(keep=60)
    for began, now in looks:
        harvest.take(Evidence(), now, began)
    assert harvest.whole(Evidence(counted={"completed": 5}), end).counted == counted


# --- a real one ------------------------------------------------------------------------------------------------------

SHORT: Final = Plan(16.0, rate=40.0)
UNSETTLED: Final = {
    "memory of a backend", "memory of all backends",  # sessions still meet statements for the first time
    "enqueue to start, p50", "enqueue to start, p99", "enqueue to end, p50", "enqueue to end, p99",
    "backlog", "transactions", "WAL",  # how much is done depends on who else uses the machine
}  # fmt: skip
"""Not flat yet after some seconds."""


@pytest.mark.timeout(240)
async def test_a_soak_finds_who_leaks_and_nothing_else() -> None:
    choice = "auto" if os.environ.get("ROWLOCK_TEST_PG", "") == "15" else "embedded"
    name = f"soak-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with servers.postgres(choice, name, **SHORT.settings) as server:
        result = await soak(server, SHORT, environments=({LEAK: "memory,descriptors,tasks"}, {}))
    assert result.violations == []
    assert result.removed > 50
    found = {(verdict.measure, verdict.of): verdict.found for verdict in result.verdicts}
    for measure in ("resident memory", "private memory", "open files", "asyncio tasks"):
        assert found[measure, "worker 1"] == "grows", measure
        assert found[measure, "worker 2"] != "grows", measure
    grown = [one for one, verdict in found.items() if verdict == "grows" and one[1] != "worker 1"]
    assert [one for one in grown if one[0] not in UNSETTLED] == []
    assert result.unjudged == []
    assert "| open files | 3 | worker 1 |" in table(result)
    assert "open files of worker 1 grows" in problems(result)
    assert chart(result).count("<polyline") == len(MEASURES)
