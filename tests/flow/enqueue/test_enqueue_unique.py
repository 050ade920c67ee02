"""unique_key and idempotency_key: what the second call gets, in every state of the first job."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from tests.waiting import eventually

from rowlock import Gate, Rowlock, State, UniqueConflict, WrongState

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


# --- what a replacement takes over -----------------------------------------------------------------------------------

REFS = "SELECT array_agg(name || '=' || value ORDER BY name, value) FROM rowlock.job_refs WHERE job_id = $1"


@pytest.mark.parametrize(("policy", "scope"), [("replace", "live"), ("replace", "waiting"), ("debounce", "waiting")])
async def test_a_replacement_takes_over_all_that_the_call_says(
    shop: Shop, raw: Raw, policy: OnConflict, scope: Scope
) -> None:
    first = await shop.sync.options(
        **KEYED, unique_scope=scope, refs={"a": 1, "b": 2}, tags=["x", "y"], gate="old", expires_in="1h", max_age="1d",
        max_attempts=3, run_in="1h", meta={"old": 1},
    ).enqueue(1)  # fmt: skip
    before = await shop.app.jobs.get(first.id)
    second = await shop.sync.options(
        **KEYED, unique_scope=scope, on_conflict=policy, refs={"a": 1, "b": 3}, tags=["y", "z"], gate="new",
        expires_in="2h", max_age="2d", max_attempts=7, run_in="3h", priority=4,
    ).enqueue(2)  # fmt: skip
    after = await shop.app.jobs.get(first.id)
    assert (second.what, second.id) == ("replaced", first.id)
    assert (after.args, after.refs, after.tags, after.gate_key) == ({"version": 2}, {"a": 1, "b": 3}, ("y", "z"), "new")
    assert (after.max_attempts, after.priority, after.meta) == (7, 4, {})
    assert await raw.fetchval(REFS, first.id) == ["a=1", "b=3", "tag=y", "tag=z"]
    assert after.expires_at is not None
    assert after.too_old_at is not None
    second_ = timedelta(seconds=5)
    assert abs(after.run_after - before.run_after - timedelta(hours=2)) < second_
    assert abs(after.expires_at - after.run_after - timedelta(hours=2)) < second_
    assert abs(after.too_old_at - after.created_at - timedelta(days=2)) < second_
    plain = await shop.sync.options(
        **KEYED, unique_scope=scope, on_conflict=policy, run_in="1h" if policy == "debounce" else None
    ).enqueue(3)
    last = await shop.app.jobs.get(plain.id)
    assert (last.refs, last.tags, last.gate_key, last.expires_at, last.too_old_at) == ({}, (), None, None, None)
    assert await raw.fetchval(REFS, first.id) is None
    if policy == "replace":
        assert last.run_after == after.run_after  # no time was named


async def test_a_parked_job_that_gets_another_gate_leaves_the_old_one(shop: Shop) -> None:
    full = Gate("full", 1)
    async with shop.app.worker():
        running = await shop.sync.options(gate=full).enqueue(1)
        await shop.until_running(running.id)
        parked = await shop.other.options(**KEYED, gate=full).enqueue(2)
        await shop.until(parked.id, "blocked")
        fence = (await shop.app.jobs.get(parked.id)).fence
        kept_there = await shop.other.options(**KEYED, gate=full, on_conflict="replace").enqueue(3)
        assert (await shop.app.jobs.get(kept_there.id)).state == "blocked"
        moved = await shop.other.options(**KEYED, gate="free", on_conflict="replace").enqueue(4)
        assert (moved.what, moved.id) == ("replaced", parked.id)
        await shop.until(parked.id, "completed")
        assert (await shop.app.jobs.get(parked.id)).fence > fence + 1
        shop.go.set()
        await shop.until(running.id, "completed")
    assert shop.ran == [1, 4]


async def test_two_replacements_at_once_leave_the_references_of_the_last(
    shop: Shop, raw: Raw, database_url: str
) -> None:
    first = await shop.sync.options(**KEYED, refs={"a": 1}).enqueue(1)
    holder = await asyncpg.connect(database_url)
    transaction = holder.transaction()
    await transaction.start()
    await shop.sync.options(**KEYED, on_conflict="replace", refs={"a": 2}, connection=holder).enqueue(2)
    racing = asyncio.create_task(shop.sync.options(**KEYED, on_conflict="replace", refs={"a": 3}).enqueue(3))
    await waits_for_a_lock(raw)
    await transaction.commit()
    await holder.close()
    assert ((await racing).what, (await shop.app.jobs.get(first.id)).refs) == ("replaced", {"a": 3})
    assert await raw.fetchval(REFS, first.id) == ["a=3"]


# --- both keys in one call -------------------------------------------------------------------------------------------

BOTH = [("keep", "live"), ("keep", "waiting"), ("replace", "live"), ("replace", "waiting"), ("debounce", "waiting")]


def both(shop: Shop, request: str, policy: OnConflict, scope: Scope, **more: Any) -> Any:  # noqa: ANN401 - options
    run_in = "1h" if policy == "debounce" else None
    return shop.sync.options(
        **KEYED, idempotency_key=request, unique_scope=scope, on_conflict=policy, run_in=run_in, **more
    )


@pytest.mark.parametrize(("policy", "scope"), BOTH)
async def test_the_idempotency_key_decides_first_and_then_the_unique_key(
    shop: Shop, raw: Raw, policy: OnConflict, scope: Scope
) -> None:
    first = await both(shop, "one", policy, scope).enqueue(1)
    again = await both(shop, "one", policy, scope).enqueue(2)
    assert (first.what, again.what, again.id) == ("created", "kept", first.id)
    assert (await shop.app.jobs.get(first.id)).args == {"version": 1}  # asked before: not replaced either
    other = await both(shop, "two", policy, scope).enqueue(3)
    assert (other.what, other.id) == ("kept" if policy == "keep" else "replaced", first.id)
    assert (await shop.app.jobs.get(first.id)).args == {"version": 1 if policy == "keep" else 3}
    await shop.app.jobs.cancel(first.id)
    for request in ("one", "two"):
        replayed = await both(shop, request, policy, scope).enqueue(4)
        assert (replayed.what, replayed.id) == ("kept", first.id)
    third = await both(shop, "three", policy, scope).enqueue(5)
    assert (third.what, third.id != first.id) == ("created", True)
    assert await raw.fetchval("SELECT count(*) FROM rowlock.job_keys") == 3
    assert await raw.fetchval("SELECT count(*) FROM rowlock.jobs") == 2


async def test_a_rejected_call_leaves_no_idempotency_key(shop: Shop, raw: Raw) -> None:
    first = await both(shop, "one", "reject", "live").enqueue(1)
    for _ in range(2):
        with pytest.raises(UniqueConflict, match="already queued"):
            await both(shop, "two", "reject", "live").enqueue(2)
    assert (await both(shop, "one", "reject", "live").enqueue(3)).id == first.id
    await shop.app.jobs.cancel(first.id)
    assert (await both(shop, "two", "reject", "live").enqueue(4)).what == "created"
    assert await raw.fetchval("SELECT count(*) FROM rowlock.job_keys") == 2


async def test_a_running_holder_is_what_the_idempotency_key_stands_for(shop: Shop) -> None:
    async with shop.app.worker():
        first = await shop.sync.options(**KEYED).enqueue(1)
        await shop.until_running(first.id)
        kept = await both(shop, "one", "replace", "live").enqueue(2)
        assert (kept.what, kept.id) == ("kept", first.id)
        shop.go.set()
        await shop.until(first.id, "completed")
        replayed = await both(shop, "one", "replace", "live").enqueue(3)
        assert (replayed.what, replayed.id) == ("kept", first.id)


@pytest.mark.parametrize("same_request", [True, False])
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(("policy", "scope"), [("reject", "live"), *BOTH])
async def test_both_keys_hold_against_a_racer(  # noqa: PLR0917 - a table
    shop: Shop, raw: Raw, database_url: str, policy: OnConflict, scope: Scope, committed: bool, same_request: bool
) -> None:
    holder = await asyncpg.connect(database_url)
    transaction = holder.transaction()
    await transaction.start()
    first = await both(shop, "one", policy, scope, connection=holder).enqueue(1)
    racing = asyncio.create_task(both(shop, "one" if same_request else "two", policy, scope).enqueue(2))
    await waits_for_a_lock(raw)
    await (transaction.commit() if committed else transaction.rollback())
    await holder.close()
    if committed and policy == "reject" and not same_request:
        with pytest.raises(UniqueConflict):
            await racing
    else:
        second = await racing
        taken = "kept" if same_request or policy in ("keep", "reject") else "replaced"
        assert (second.what, second.id == first.id) == ((taken, True) if committed else ("created", False))
    dangling = (
        "SELECT count(*) FROM rowlock.job_keys k WHERE NOT EXISTS (SELECT FROM rowlock.jobs j WHERE j.id = k.job_id)"
    )
    assert await raw.fetchval(dangling) == 0
    assert await raw.fetchval("SELECT count(*) FROM rowlock.jobs") == 1


# --- one current job -------------------------------------------------------------------------------------------------


async def test_one_current_job_per_key_through_retries_and_crashes(shop: Shop, raw: Raw) -> None:
    """A key is held from the enqueue to the end, whatever happens between; a person's retry does not make a second."""
    bound = shop.sync.options(unique_key="org-7", on_conflict="keep")
    first = await bound.enqueue(1)
    async with shop.app.worker() as worker:
        assert worker is not None
        await shop.until_running(first.id)
        assert (await bound.enqueue(2)).id == first.id
        await worker.stop(after=0)
    assert (await shop.app.jobs.get(first.id)).state == "queued"  # its worker stopped; it goes on elsewhere
    assert (await bound.enqueue(3)).id == first.id
    await shop.app.jobs.cancel(first.id)
    second = await bound.enqueue(4)
    assert second.what == "created"
    with pytest.raises(WrongState, match=f"its unique key is held by the live job {second.public_id}"):
        await shop.app.jobs.retry(first.id)
    live = "SELECT count(*) FROM rowlock.jobs WHERE finished_at IS NULL"
    assert await raw.fetchval(live) == 1
