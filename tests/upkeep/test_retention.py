"""Retention: which rule decides, what goes with a job, and that no row is walked twice."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import TOLD, Store, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as opened_store:
        yield opened_store


async def finished(store: Store, days: float, kind: str = "k", state: str = "completed", **fields: Any) -> int:  # noqa: ANN401
    """A job that ended that long ago."""
    job = await store.enqueue(kind, **fields)
    (claim,) = await store.claim(await store.worker(), job)
    await store.complete(claim, state=state)
    aged = "UPDATE {s}.jobs SET finished_at = now() - make_interval(secs => $2) WHERE id = $1"
    await store.execute(aged, job, days * 86400)
    return job


async def rule(store: Store, kind: str, state: str, days: float) -> None:
    await store.fetch("set_retention", kinds=[kind], states=[state], keeps=[timedelta(days=days)])


async def prune(store: Store, batch: int = 100) -> int:
    total = 0
    for found in await store.fetch("retention_rules"):
        total += (await store.one("prune", kind=found["kind"], state=found["state"], batch=batch))["pruned"]
    return total


async def left(store: Store) -> list[int]:
    return [row["id"] for row in await store.connection.fetch("SELECT id FROM rowlock.jobs ORDER BY id")]


async def test_finished_jobs_go_after_seven_days_and_live_ones_never(store: Store) -> None:
    await finished(store, 8)
    young, live = await finished(store, 6), await store.enqueue()
    await store.execute("UPDATE {s}.jobs SET created_at = now() - interval '1 year'")
    assert await prune(store) == 1
    assert await left(store) == [young, live]


async def test_a_row_with_references_written_by_hand_goes_with_its_neighbours(store: Store) -> None:
    for _ in range(3):
        await finished(store, 8)
    await store.execute("UPDATE {s}.jobs SET refs = '[1]', tags = '{NULL}' WHERE id = (SELECT min(id) FROM {s}.jobs)")
    assert await prune(store) == 3


async def test_the_most_specific_rule_decides(store: Store) -> None:
    await rule(store, "k", "*", 30)
    await rule(store, "*", "failed", 90)
    await rule(store, "k", "failed", 365)
    kept = [
        await finished(store, 20),
        await finished(store, 60, "other", "failed"),
        await finished(store, 300, "k", "failed"),
    ]
    for age, kind, state in ((40, "k", "completed"), (100, "other", "failed"), (8, "other", "completed")):
        await finished(store, age, kind, state)
    await finished(store, 400, "k", "failed")
    assert await prune(store) == 4
    assert await left(store) == kept


async def test_a_rule_of_zero_removes_at_once(store: Store) -> None:
    await rule(store, "k", "completed", 0)
    await finished(store, 0)
    failed = await finished(store, 0, state="failed")
    assert await prune(store) == 1
    assert await left(store) == [failed]


async def test_everything_of_a_pruned_job_goes_with_it_but_its_idempotency_key(store: Store) -> None:
    job = await finished(
        store,
        8,
        statement="enqueue_once",
        idempotency_key="i",
        keep_key=timedelta(days=30),
        tags=("t",),
        refs='{"p": 1}',
    )
    await store.execute("INSERT INTO {s}.job_attempts (job_id, fence, outcome) VALUES ($1, 0, 'failed')", job)
    await store.execute("INSERT INTO {s}.job_progress (job_id, fence) VALUES ($1, 0)", job)
    await store.execute("INSERT INTO {s}.job_acts (job_id, verb) VALUES ($1, 'approve')", job)
    for told in TOLD:
        await store.execute(told, job)
    assert await store.value("SELECT count(*) FROM {s}.job_refs") == 2
    assert await prune(store) == 1
    beside = ("job_refs", "job_attempts", "job_progress", "job_acts", "job_items", "job_logs", "job_checkpoints")
    for table in ("jobs", *beside):
        assert await store.value(f"SELECT count(*) FROM {{s}}.{table}") == 0, table
    again = await store.one("enqueue_once", **await once("i"))
    assert (again["id"], again["what"], again["state"]) == (job, "kept", "pruned")


async def once(key: str) -> dict[str, object]:
    from rowlock.model.job import NewJob  # noqa: PLC0415
    from rowlock.store.jobs.enqueue import values_of  # noqa: PLC0415 - one test's need

    return {"args": "{}", **values_of(NewJob(kind="k", idempotency_key=key, keep_key=timedelta(days=30)))}


async def test_keys_have_a_retention_of_their_own(store: Store) -> None:
    first = await store.one("enqueue_once", **await once("i"))
    await store.one("enqueue_once", **await once("j"))
    await store.execute("UPDATE {s}.job_keys SET expires_at = now() - interval '1 s' WHERE key = 'i'")
    await store.fetch("prune_keys", batch=10)
    assert await store.value("SELECT array_agg(key) FROM {s}.job_keys") == ["j"]
    again = await store.one("enqueue_once", **await once("i"))
    assert (again["what"], again["id"] != first["id"]) == ("created", True)


async def test_an_expired_key_counts_as_free_before_it_is_pruned(store: Store) -> None:
    await store.one("enqueue_once", **await once("i"))
    assert (await store.one("enqueue_once", **await once("i")))["what"] == "kept"
    await store.execute("UPDATE {s}.job_keys SET expires_at = now() - interval '1 s'")
    assert (await store.one("enqueue_once", **await once("i")))["what"] == "created"


async def test_a_round_begins_where_the_last_one_stopped(store: Store) -> None:
    for _ in range(5):
        await finished(store, 8)
    for pruned in (2, 2, 1, 0):
        assert await prune(store, batch=2) == pruned
    pruned_to = await store.value("SELECT pruned_to FROM {s}.retention")
    until = await store.value("SELECT now() - interval '7 days'")
    assert timedelta(0) < until - pruned_to < timedelta(minutes=11)
    await finished(store, 7.001)
    assert await prune(store) == 1


async def test_jobs_that_ended_at_one_moment_are_all_pruned_however_small_the_batch(store: Store) -> None:
    for _ in range(5):
        await finished(store, 8)
    await store.execute("UPDATE {s}.jobs SET finished_at = '2026-01-01'")
    assert [await prune(store, batch=2) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_changed_rule_judges_everything_again(store: Store) -> None:
    await rule(store, "k", "*", 30)
    await finished(store, 20)
    assert await prune(store) == 0
    await rule(store, "k", "*", 10)
    assert await prune(store) == 1


async def test_an_unchanged_rule_does_not_start_over(store: Store) -> None:
    await rule(store, "k", "*", 30)
    await prune(store)
    before = await store.value("SELECT pruned_to FROM {s}.retention WHERE kind = 'k'")
    await rule(store, "k", "*", 30)
    assert await store.value("SELECT pruned_to FROM {s}.retention WHERE kind = 'k'") == before


async def test_two_prunes_at_once_are_harmless(store: Store) -> None:
    for _ in range(4):
        await finished(store, 8)
    async with opened(store.database) as other, other.connection.transaction():
        assert (await other.one("prune", kind="*", state="*", batch=2))["pruned"] == 2
        assert (await store.one("prune", kind="*", state="*", batch=2))["pruned"] == 0  # the rule is taken
    assert await prune(store) == 2


async def test_a_rule_that_is_taken_back_leaves_its_jobs_to_the_wider_one(store: Store) -> None:
    old = await finished(store, 8)
    await store.fetch("retention_order", kind="k", state="*", keep=timedelta(days=90))
    assert await prune(store) == 0  # and the wider rule's mark has passed the job
    assert await left(store) == [old]
    assert await store.fetch("retention_reset", kind="k", state="*") == []
    assert await prune(store) == 1


async def test_what_a_person_orders_counts_before_what_the_code_declares(store: Store) -> None:
    await finished(store, 3)
    await rule(store, "k", "*", 2)
    await store.fetch("retention_order", kind="k", state="*", keep=timedelta(days=4))
    await rule(store, "k", "*", 2)
    await rule(store, "k", "*", 1)
    assert await prune(store) == 0
    (found,) = await store.fetch("retention_reset", kind="k", state="*")
    assert (found["keep"], found["declared"]) == (timedelta(days=1), timedelta(days=1))
    assert await prune(store) == 1
