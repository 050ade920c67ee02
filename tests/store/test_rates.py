"""Rates hold whatever workers do: what is used up is used up at admission, and those that must wait get a turn."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.factories import Store, opened, rate, rated, several

from rowlock.model.rate import Rate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as opened_store:
        yield opened_store


async def turns(store: Store, *jobs: int) -> list[float]:
    """Hours from the first turn to each."""
    at: list[datetime] = [(await store.row(job))["run_after"] for job in jobs]
    return [round((moment - at[0]).total_seconds() / 3600, 2) for moment in at]


async def pass_time(store: Store, hours: float) -> None:
    """Let all that is stored be so much longer ago. Hours: no machine is so slow that a token comes due meanwhile."""
    (shift,) = await store.fetch("shift_text", span=timedelta(hours=hours), schema="rowlock")
    await store.connection.execute(shift["text"])


async def test_a_bucket_lets_its_burst_start_and_gives_the_others_turns(store: Store) -> None:
    await rate(store, "a", Rate(10, "1h", burst=3))
    jobs = await rated(store, 6, "a")
    worker = await store.worker()
    assert [claim.job_id for claim in await store.claim(worker, *jobs)] == jobs[:3]
    assert await turns(store, *jobs[3:]) == [0, 0.1, 0.2]
    for job in jobs[3:]:
        row = await store.row(job)
        assert (row["state"], row["attempt"], row["claimed_by"], row["lane"], row["fence"]) == (
            "queued",
            0,
            None,
            None,
            2,
        )
        assert row["rate_turn"]


async def test_a_turn_is_kept_and_newcomers_queue_up_behind(store: Store) -> None:
    await rate(store, "a", Rate(1, "10h", burst=2))
    jobs = await rated(store, 4, "a")
    worker = await store.worker()
    assert len(await store.claim(worker, *jobs)) == 2
    await pass_time(store, 12)
    newcomer = await store.enqueue(rate_keys=("a",))
    # There is a token, and it is the first waiting one's.
    assert await store.claim(worker, newcomer) == []
    assert await turns(store, jobs[2], jobs[3], newcomer) == [0, 10, 20]
    assert [claim.job_id for claim in await store.claim(worker, *jobs, newcomer)] == [jobs[2]]
    await pass_time(store, 10)
    assert [claim.job_id for claim in await store.claim(worker, newcomer, jobs[3])] == [jobs[3]]


async def test_a_more_urgent_newcomer_overtakes_those_that_wait(store: Store) -> None:
    await rate(store, "a", Rate(10, "1h", burst=1))
    jobs = await rated(store, 20, "a")
    worker = await store.worker()
    await store.claim(worker, *jobs)
    urgent = await store.enqueue(rate_keys=("a",), priority=5)
    assert await store.claim(worker, urgent) == []
    assert (await turns(store, jobs[1], urgent))[1] <= 0.1


async def test_a_rate_that_nothing_uses_admits_although_turns_were_given(store: Store) -> None:
    """Those that had them were cancelled."""
    await rate(store, "a", Rate(1, "10h", burst=2))
    jobs = await rated(store, 12, "a")
    worker = await store.worker()
    assert len(await store.claim(worker, *jobs)) == 2
    await store.cancel_waiting(*jobs[2:])
    await pass_time(store, 22)
    newcomers = await rated(store, 2, "a")
    assert len(await store.claim(worker, *newcomers)) == 2


async def test_a_window_never_has_more_than_its_amount_and_frees_what_has_left_it(store: Store) -> None:
    await rate(store, "a", Rate(4, "10h", window=True))
    worker = await store.worker()
    assert len(await store.claim(worker, *await rated(store, 2, "a"))) == 2
    await pass_time(store, 9)
    jobs = await rated(store, 5, "a")
    assert len(await store.claim(worker, *jobs)) == 2
    await pass_time(store, 0.95)
    assert await store.claim(worker, *await rated(store, 1, "a")) == []
    await pass_time(store, 0.6)  # the first two are out, the oldest step counted whole; turns are spread evenly
    assert len(await store.claim(worker, *jobs[2:])) == 1
    await pass_time(store, 2.7)
    assert len(await store.claim(worker, *jobs[2:])) == 1
    row = await store.value("SELECT uses FROM {s}.rates")
    assert sum(row) == 4
    assert len(row) == 21


async def test_a_start_late_in_its_step_counts_until_the_whole_step_has_left_the_window(store: Store) -> None:
    """A window has 20 steps; one more is counted, as part of it is still inside."""
    await rate(store, "a", Rate(4, "10h", window=True))
    worker = await store.worker()
    assert len(await store.claim(worker, *await rated(store, 1, "a"))) == 1
    await pass_time(store, 0.4)
    assert len(await store.claim(worker, *await rated(store, 3, "a"))) == 3
    await pass_time(store, 9.9)
    (job,) = await rated(store, 1, "a")
    assert await store.claim(worker, job) == []
    await pass_time(store, 0.6)
    assert len(await store.claim(worker, job)) == 1


async def test_all_the_rates_of_a_job_must_have_room_and_a_refused_one_uses_nothing(store: Store) -> None:
    await rate(store, "a", Rate(100, "1h"))
    await rate(store, "b", Rate(1, "1h"))
    worker = await store.worker()
    jobs = await rated(store, 3, "a", "b")
    assert len(await store.claim(worker, *jobs)) == 1
    assert round(await store.value("SELECT tokens FROM {s}.rates WHERE key = 'a'"), 1) == 99


async def test_weights_count_and_a_lighter_one_of_another_key_goes_on(store: Store) -> None:
    await rate(store, "a", Rate(10, "1h"))
    await rate(store, "b", Rate(10, "1h"))
    worker = await store.worker()
    heavy = await rated(store, 3, "a", rate_weight=4)
    other = await rated(store, 1, "b")
    assert [claim.job_id for claim in await store.claim(worker, *heavy, *other)] == [*heavy[:2], *other]


async def test_a_job_at_a_full_gate_uses_no_token_and_one_over_its_rate_gives_its_place_back(store: Store) -> None:
    await rate(store, "a", Rate(2, "1h"))
    await store.gate("g", 1)
    worker = await store.worker()
    jobs = await rated(store, 2, "a", gate_key="g")
    (claim,) = await store.claim(worker, *jobs)
    assert await store.states(*jobs) == ["running", "blocked"]
    assert round(await store.value("SELECT tokens FROM {s}.rates"), 1) == 1
    await rate(store, "none", Rate(1, "1h"))
    assert len(await store.claim(worker, *await rated(store, 1, "none"))) == 1
    await store.execute("UPDATE {s}.jobs SET rate_keys = '{none}' WHERE id = $1", jobs[1])
    behind = await store.enqueue(gate_key="g")
    await store.claim(worker, behind)
    await store.complete(claim)  # its place is handed to the second one, whose rate refuses it
    assert await store.claim(worker, jobs[1]) == []
    assert await store.states(jobs[1], behind) == ["queued", "queued"]
    assert await store.value("SELECT held FROM {s}.gates") == 1
    assert [claim.job_id for claim in await store.claim(worker, behind)] == [behind]
    assert (await store.row(jobs[1]))["gate_place"] == 0


async def test_a_key_over_its_rate_leaves_the_claim_in_one_go_and_others_go_on(store: Store) -> None:
    await rate(store, "a", Rate(1, "1h"))
    jobs = await rated(store, 40, "a")
    free = await store.enqueue()
    worker = await store.worker()
    rows = await store.claim_some(worker, 2)
    assert [row["parked"] for row in rows] == [False, True]
    assert [row["id"] for row in await store.claim_some(worker, 2)] == [free]
    assert await turns(store, *jobs[1:]) == [float(n) for n in range(39)]


async def test_a_pause_holds_everybody_and_a_resumed_key_goes_on(store: Store) -> None:
    await rate(store, "a", Rate(10, "1h"))
    worker = await store.worker()
    await store.fetch("rate_pause", key="a", until=None, lasting=timedelta(hours=5), by_whom="me")
    jobs = await rated(store, 3, "a")
    assert await store.claim(worker, *jobs) == []
    left = await store.value(
        "SELECT extract(epoch FROM min(run_after) - now()) / 3600 FROM {s}.jobs WHERE state = 'queued'"
    )
    assert 4.9 < left <= 5
    await store.fetch("register_pairs", kinds=["k"], priorities=[0], shares=[0])
    await store.fetch("rate_resume", key="a")
    assert len(await store.fetch("rate_recall", key="a", done=[], passed=0, batch=100)) == 3
    await pass_time(store, 0.5)
    assert len(await store.claim(worker, *jobs)) == 3


async def test_claims_of_many_connections_never_admit_more_than_the_bucket_has(database_url: str) -> None:
    async with several(database_url, 4) as stores:
        await rate(stores[0], "a", Rate(1, "1h", burst=30))
        await rate(stores[0], "b", Rate(25, "1h", window=True))
        jobs = await rated(stores[0], 60, "a", "b")

        async def work(store: Store, mine: list[int]) -> int:
            worker, n = await store.worker(), 0
            for start in range(0, len(mine), 3):
                n += len(await store.claim(worker, *mine[start : start + 3]))
            return n

        started = await asyncio.gather(*(work(store, jobs[n::4]) for n, store in enumerate(stores)))
        assert sum(started) == 25
