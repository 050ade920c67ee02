"""Many explanations at once: each as explain() gives it, of one snapshot, with what they share read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock import InvalidOption
from rowlock.desk.explain.repeated_reads import RepeatedReads
from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from tests.desk.conftest import Desk


class Counted:
    """Rows that name how many times a statement ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def fetch(self, name: str, /, **values: object) -> list[Any]:
        self.ran.append(name)
        return [(name, values, len(self.ran))]


async def test_a_statement_runs_again_only_for_other_values() -> None:
    counted = Counted()
    reads = RepeatedReads(counted)
    first = await reads.fetch("lanes", names=["a"])
    assert await reads.fetch("lanes", names=["a"]) == first
    assert await reads.fetch("lanes", names=["b"]) != first
    assert counted.ran == ["lanes", "lanes"]


async def test_each_job_is_explained_as_alone_in_the_order_asked(desk: Desk) -> None:
    await desk.lane(kinds=("k",))
    await desk.worker(kinds=("k",))
    unserved = await desk.store.enqueue("other")
    first, second = await desk.store.enqueue("k"), await desk.store.enqueue("k")
    await desk.store.fetch("sweep")
    asked = [second, unserved, first]
    found = await desk.app.jobs.explain_many(asked)
    assert [each.job.id for each in found] == asked
    assert [each.codes for each in found] == [await desk.codes(number) for number in asked]
    assert found[0].position is not None
    assert found[0].position.before.value == 1


async def test_jobs_that_are_gone_or_of_others_are_left_out(desk: Desk) -> None:
    mine = await desk.store.enqueue("k", tenant="acme")
    other = await desk.store.enqueue("k", tenant="globex")
    acme = desk.app.desk(Principal("ada", tenant="acme", permissions=frozenset({Permission.READ})))
    assert [each.job.id for each in await acme.jobs.explain_many([other, mine, 777])] == [mine]


async def test_more_than_a_screen_of_jobs_is_refused(desk: Desk) -> None:
    with pytest.raises(InvalidOption, match="takes 50 jobs at most; got 51"):
        await desk.app.jobs.explain_many(list(range(1, 52)))
