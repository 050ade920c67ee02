"""unique_key and idempotency_key: what the second call gets, in every state of the first job."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from tests.waiting import eventually

from rowlock import Gate, Rowlock, State, UniqueConflict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock.model.kind import OnConflict, Scope

    Raw = asyncpg.Connection[asyncpg.Record]

KEYED: dict[str, Any] = {"unique_key": "org-7"}


class Shop:
    """An application with two kinds whose jobs run until they are let go."""

    def __init__(self, url: str) -> None:
        self.app = Rowlock(url)
        self.go = asyncio.Event()
        self.ran: list[int] = []

        @self.app.job
        async def sync(version: int) -> None:
            self.ran.append(version)
            await self.go.wait()

        @self.app.job
        async def other(version: int) -> None:
            self.ran.append(version)

        self.sync, self.other = sync, other

    async def until_running(self, job_id: int) -> None:
        await self.until(job_id, "running")

    async def until(self, job_id: int, state: str) -> None:
        async def reached() -> bool:
            return (await self.app.jobs.get(job_id)).state == state

        await eventually(reached)


@pytest.fixture
async def shop(database_url: str) -> AsyncIterator[Shop]:
    shop = Shop(database_url)
    async with shop.app:
        yield shop


@pytest.fixture
async def raw(database_url: str) -> AsyncIterator[Raw]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.mark.parametrize("scope", ["live", "waiting"])
async def test_reject_names_the_waiting_job(shop: Shop, scope: Scope) -> None:
    bound = shop.sync.options(**KEYED, unique_scope=scope)
    first = await bound.enqueue(1)
    with pytest.raises(UniqueConflict, match=r"A sync job with unique_key 'org-7' is already queued: ") as caught:
        await bound.enqueue(2)
    assert caught.value.job_id == first.id
    assert first.public_id in str(caught.value)
    assert [job.args for job in await shop.app.jobs.list()] == [{"version": 1}]


@pytest.mark.parametrize("scope", ["live", "waiting"])
async def test_keep_returns_the_waiting_job_as_it_is(shop: Shop, scope: Scope) -> None:
    bound = shop.sync.options(**KEYED, unique_scope=scope, on_conflict="keep")
    first, second = await bound.enqueue(1), await bound.enqueue(2)
    assert (first.what, second.what, second.id) == ("created", "kept", first.id)
    assert (await shop.app.jobs.get(first.id)).args == {"version": 1}


@pytest.mark.parametrize("scope", ["live", "waiting"])
async def test_replace_gives_the_waiting_job_new_arguments(shop: Shop, scope: Scope) -> None:
    bound = shop.sync.options(**KEYED, unique_scope=scope, on_conflict="replace", priority=3, meta={"n": 1})
    first = await shop.sync.options(**KEYED, unique_scope=scope, run_in="1h").enqueue(1)
    before = await shop.app.jobs.get(first.id)
    second = await bound.enqueue(2)
    after = await shop.app.jobs.get(first.id)
    assert (second.what, second.id) == ("replaced", first.id)
    assert (after.args, after.priority, after.meta) == ({"version": 2}, 3, {"n": 1})
    assert (after.run_after, after.fence) == (before.run_after, before.fence)
    assert after.seq == before.seq + 1


async def test_debounce_pushes_the_job_back_but_not_beyond_max_wait(shop: Shop) -> None:
    bound = shop.sync.options(**KEYED, on_conflict="debounce", run_in="1h", max_wait="90m")
    first = await bound.enqueue(1)
    created = await shop.app.jobs.get(first.id)
    second = await bound.enqueue(2)
    pushed = await shop.app.jobs.get(first.id)
    await shop.sync.options(**KEYED, on_conflict="debounce", run_in="5h", max_wait="90m").enqueue(3)
    capped = await shop.app.jobs.get(first.id)
    assert (first.what, second.what, second.id) == ("created", "replaced", first.id)
    assert pushed.args == {"version": 2}
    assert pushed.run_after > created.run_after
    assert (capped.args, capped.run_after) == ({"version": 3}, created.created_at + timedelta(minutes=90))


@pytest.mark.parametrize(("policy", "what"), [("keep", "kept"), ("replace", "kept")])
async def test_a_running_job_counts_as_live_and_keeps_its_arguments(shop: Shop, policy: OnConflict, what: str) -> None:
    async with shop.app.worker():
        first = await shop.sync.options(**KEYED).enqueue(1)
        await shop.until_running(first.id)
        second = await shop.sync.options(**KEYED, on_conflict=policy).enqueue(2)
        with pytest.raises(UniqueConflict, match="already running"):
            await shop.sync.options(**KEYED).enqueue(3)
        assert (second.what, second.id) == (what, first.id)
        assert (await shop.app.jobs.get(first.id)).args == {"version": 1}
        shop.go.set()
        await shop.until(first.id, "completed")
        assert (await shop.sync.options(**KEYED).enqueue(4)).what == "created"


@pytest.mark.parametrize("policy", ["reject", "keep", "replace", "debounce"])
async def test_a_running_job_does_not_count_as_waiting_and_gets_one_follower(shop: Shop, policy: OnConflict) -> None:
    bound = shop.sync.options(
        **KEYED, unique_scope="waiting", on_conflict=policy, run_in="1ms" if policy == "debounce" else None
    )
    async with shop.app.worker({"default": 1}):
        first = await bound.enqueue(1)
        await shop.until_running(first.id)
        trailing = await bound.enqueue(2)
        assert (trailing.what, trailing.id != first.id) == ("created", True)
        if policy == "reject":
            with pytest.raises(UniqueConflict):
                await bound.enqueue(3)
        else:
            third = await bound.enqueue(3)
            assert (third.what, third.id) == ("kept" if policy == "keep" else "replaced", trailing.id)
        shop.go.set()
        await shop.until(trailing.id, "completed")
    assert shop.ran == [1, 3 if policy in ("replace", "debounce") else 2]


async def test_a_job_parked_at_its_gate_is_replaced_where_it_stands(shop: Shop) -> None:
    async with shop.app.worker():
        holder = await shop.sync.options(gate=Gate("narrow")).enqueue(1)
        await shop.until_running(holder.id)
        parked = await shop.sync.options(**KEYED, gate=Gate("narrow")).enqueue(2)
        await shop.until(parked.id, "blocked")
        again = await shop.sync.options(**KEYED, gate=Gate("narrow"), on_conflict="replace").enqueue(3)
        assert (again.what, again.id) == ("replaced", parked.id)
        assert (await shop.app.jobs.get(parked.id)).state == "blocked"
        shop.go.set()
        await shop.until(parked.id, "completed")
    assert shop.ran == [1, 3]


async def test_a_key_belongs_to_its_kind_unless_it_is_shared(shop: Shop) -> None:
    await shop.sync.options(**KEYED).enqueue(1)
    assert (await shop.other.options(**KEYED).enqueue(1)).what == "created"
    shared = await shop.sync.options(**KEYED, unique_across_kinds=True).enqueue(2)
    kept = await shop.other.options(**KEYED, unique_across_kinds=True, on_conflict="keep").enqueue(2)
    assert (shared.what, kept.what, kept.id) == ("created", "kept", shared.id)


async def test_new_arguments_void_an_approval(shop: Shop) -> None:
    job = await shop.sync.options(**KEYED, approval=True).enqueue(1)
    replaced = await shop.sync.options(**KEYED, approval=True, on_conflict="replace").enqueue(2)
    assert (replaced.what, (await shop.app.jobs.get(job.id)).state) == ("replaced", "pending")
    approved = await shop.app.jobs.approve(job.id, by="ada")
    assert approved.state is State.QUEUED
    await shop.sync.options(**KEYED, on_conflict="replace").enqueue(3)
    voided = await shop.app.jobs.get(job.id)
    assert (voided.state, voided.args, voided.fence) == ("pending", {"version": 3}, approved.fence + 1)


async def waits_for_a_lock(raw: Raw) -> None:
    async def waits() -> bool:
        return bool(
            await raw.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        )

    await eventually(waits)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("policy", ["reject", "keep", "replace", "debounce"])
async def test_a_racer_waits_for_the_uncommitted_holder(
    shop: Shop, raw: Raw, database_url: str, policy: OnConflict, committed: bool
) -> None:
    run_in = "1h" if policy == "debounce" else None
    holder = await asyncpg.connect(database_url)
    transaction = holder.transaction()
    await transaction.start()
    first = await shop.sync.options(**KEYED, connection=holder, on_conflict=policy, run_in=run_in).enqueue(1)
    racing = asyncio.create_task(shop.sync.options(**KEYED, on_conflict=policy, run_in=run_in).enqueue(2))
    await waits_for_a_lock(raw)
    await (transaction.commit() if committed else transaction.rollback())
    await holder.close()
    if committed and policy == "reject":
        with pytest.raises(UniqueConflict):
            await racing
    else:
        second = await racing
        expected = (
            {"keep": "kept", "replace": "replaced", "debounce": "replaced"}.get(policy) if committed else "created"
        )
        assert (second.what, second.id == first.id) == (expected, committed)
    assert len(await shop.app.jobs.list()) == 1


async def test_an_idempotency_key_returns_the_same_job_for_ever_after(shop: Shop, raw: Raw) -> None:
    bound = shop.other.options(idempotency_key="request-1", refs={"x": 1})
    first, second = await bound.enqueue(1), await bound.enqueue(2)
    assert (first.what, second.what, second.id) == ("created", "kept", first.id)
    async with shop.app.worker():
        await first.wait(timeout=20)
    finished = await bound.enqueue(3)
    assert (finished.what, finished.id) == ("kept", first.id)
    await raw.execute("DELETE FROM rowlock.jobs")
    pruned = await bound.enqueue(4)
    assert (pruned.what, pruned.id, pruned.public_id) == ("kept", first.id, first.public_id)
    assert await shop.app.jobs.list() == []
    assert shop.ran == [1]
    # The key belongs to the kind.
    assert (await shop.sync.options(idempotency_key="request-1").enqueue(1)).what == "created"


async def test_an_expired_idempotency_key_is_free_again(shop: Shop, raw: Raw) -> None:
    bound = shop.other.options(idempotency_key="request-1", keep_key="2h")
    first = await bound.enqueue(1)
    kept = await raw.fetchval("SELECT expires_at - created_at FROM rowlock.job_keys")
    assert abs(kept - timedelta(hours=2)) < timedelta(seconds=1)
    await raw.execute("UPDATE rowlock.job_keys SET expires_at = now() - interval '1 s'")
    second = await bound.enqueue(2)
    assert (second.what, second.id != first.id) == ("created", True)
    assert (await bound.enqueue(3)).id == second.id


@pytest.mark.parametrize("committed", [True, False])
async def test_two_requests_with_one_idempotency_key_make_one_job(
    shop: Shop, raw: Raw, database_url: str, committed: bool
) -> None:
    holder = await asyncpg.connect(database_url)
    transaction = holder.transaction()
    await transaction.start()
    first = await shop.other.options(idempotency_key="k", connection=holder).enqueue(1)
    racing = asyncio.create_task(shop.other.options(idempotency_key="k").enqueue(2))
    await waits_for_a_lock(raw)
    await (transaction.commit() if committed else transaction.rollback())
    await holder.close()
    second = await racing
    assert (second.what, second.id == first.id) == (("kept", True) if committed else ("created", False))
    assert len(await shop.app.jobs.list()) == 1


async def test_many_racers_make_one_job(shop: Shop) -> None:
    bound = shop.sync.options(**KEYED, on_conflict="keep")
    jobs = await asyncio.gather(*(bound.enqueue(n) for n in range(20)))
    assert sorted(job.what for job in jobs) == ["created", *["kept"] * 19]
    assert len({job.id for job in jobs}) == 1
