from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest

from rowlock import InvalidArguments, InvalidOption, Rowlock, Task, UniqueConflict
from rowlock.errors import WriteRefused
from rowlock.flow.enqueue import insert
from rowlock.store import bulk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url) as app:
        yield app


@pytest.fixture
async def raw(database_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


def ship(app: Rowlock) -> Task[[int], None]:
    @app.job(priority=4)
    async def ship(number: int) -> None: ...

    return ship


def items(count: int) -> list[dict[str, object]]:
    return [{"number": n} for n in range(count)]


async def stored(raw: asyncpg.Connection[asyncpg.Record]) -> dict[int, int]:
    """Job id to the number in its arguments."""
    return {row[0]: row[1] for row in await raw.fetch("SELECT id, (args->>'number')::integer FROM rowlock.jobs")}


async def test_five_thousand_plain_jobs_come_back_in_order(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    jobs = await ship(app).options(tenant="acme", meta={"x": [1]}, max_attempts=2).enqueue_many(items(5000))
    found = await stored(raw)
    assert [found[job.id] for job in jobs] == list(range(5000))
    assert {job.what for job in jobs} == {"created"}
    one = await app.jobs.get(jobs[4321].public_id)
    assert (one.state, one.priority, one.max_attempts, one.tenant) == ("queued", 4, 2, "acme")
    assert (one.args, one.meta) == ({"number": 4321}, {"x": [1]})


STRANGE = ["\\N", "\\.", "\\", "a\tb", "a\nb\r\n", "\\t\\n", '"quoted"', "é\u2028😀", "%d %s", "\x7f", ""]


async def test_no_text_is_taken_for_the_marks_of_copy(app: Rowlock) -> None:
    @app.job
    async def say(text: str) -> None: ...

    for text in STRANGE:
        bound = say.options(tenant=text or None, submitted_by=text or None, meta={text: text})
        jobs = await bound.enqueue_many([{"text": other} for other in STRANGE])
        found = await app.jobs.many(job.id for job in jobs)
        assert [job.args for job in found] == [{"text": other} for other in STRANGE]
        assert {(job.tenant, job.submitted_by) for job in found} == {(text or None, text or None)}
        assert all(job.meta == {text: text} for job in found)


class Tenant(str, Enum):  # noqa: UP042 - such a one is shown as Tenant.ACME
    ACME = "acme"


class Urgency(int, Enum):
    HIGH = 7


async def test_an_enum_that_is_a_text_or_a_number_is_stored_as_such(app: Rowlock) -> None:
    bound = ship(app).options(tenant=Tenant.ACME, submitted_by=Tenant.ACME, priority=Urgency.HIGH)
    jobs = await app.jobs.many(job.id for job in [*await bound.enqueue_many(items(2)), await bound.enqueue(1)])
    assert {(job.tenant, job.submitted_by, job.priority) for job in jobs} == {("acme", "acme", 7)}


async def test_a_bulk_may_wait_for_approval(app: Rowlock) -> None:
    jobs = await ship(app).options(approval=True).enqueue_many(items(3))
    assert [job.state for job in await app.jobs.many(job.id for job in jobs)] == ["pending"] * 3


async def test_every_job_of_a_bulk_has_its_own_key_gate_and_references(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    @app.job(refs=lambda number: {"order": number, "none": None}, gate=lambda number: f"gate-{number}")
    async def pack(number: int) -> None: ...

    bound = pack.options(unique_key=lambda number: f"n-{number}", tags=["bulk"], run_in="1h")
    jobs = await bound.enqueue_many(items(2500))
    found = await stored(raw)
    assert [found[job.id] for job in jobs] == list(range(2500))
    one = await app.jobs.get(jobs[2222].id)
    assert (one.unique_key, one.gate_key, one.refs["order"]) == ("pack:n-2222", "gate-2222", 2222)
    rows = await raw.fetch("SELECT name, value FROM rowlock.job_refs WHERE job_id = $1 ORDER BY 1", one.id)
    assert [tuple(row) for row in rows] == [("order", "2222"), ("tag", "bulk")]


async def test_each_row_of_a_keyed_bulk_tells_its_own_outcome(app: Rowlock) -> None:
    bound = ship(app).options(unique_key=lambda number: f"n-{number % 10}", on_conflict="keep")
    before = await bound.enqueue(3)
    jobs = await bound.enqueue_many(items(12))
    assert [job.what for job in jobs] == ["created"] * 3 + ["kept"] + ["created"] * 6 + ["kept"] * 2
    assert (jobs[3].id, jobs[10].id, jobs[11].id) == (before.id, jobs[0].id, jobs[1].id)


async def test_duplicates_are_found_across_batches(app: Rowlock) -> None:
    bound = ship(app).options(unique_key=lambda number: f"n-{number % 1100}", on_conflict="keep")
    jobs = await bound.enqueue_many(items(2200))
    assert [job.id for job in jobs[:1100]] == [job.id for job in jobs[1100:]]
    assert {job.what for job in jobs[1100:]} == {"kept"}


@pytest.mark.parametrize("duplicate", [5, 1500])
async def test_a_rejected_row_leaves_nothing_of_the_bulk(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record], duplicate: int
) -> None:
    bound = ship(app).options(unique_key=lambda number: f"n-{number}", refs={"x": 1})
    before = await bound.enqueue(duplicate)
    with pytest.raises(UniqueConflict, match=f"unique_key 'n-{duplicate}' is already queued") as caught:
        await bound.enqueue_many(items(2000))
    assert caught.value.job_id == before.id
    assert await stored(raw) == {before.id: duplicate}


async def test_a_rejected_bulk_leaves_nothing_in_a_transaction_that_goes_on(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record], database_url: str
) -> None:
    bound = ship(app).options(unique_key=lambda number: f"n-{number}")
    before = await bound.enqueue(1500)
    with psycopg.connect(database_url) as connection:
        joined = ship(app).options(
            unique_key=lambda number: f"n-{number}", refs={"x": 1}, tags=["t"], connection=connection
        )
        with pytest.raises(UniqueConflict):
            joined.enqueue_many_sync(items(2000))
        kept = joined.enqueue_sync(2)
    assert await stored(raw) == {before.id: 1500, kept.id: 2}
    assert await raw.fetchval("SELECT count(*) FROM rowlock.job_refs") == 2


async def test_a_wrong_item_is_named_and_nothing_is_written(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    wrong: list[Any] = [{"number": 1}, {"number": "x"}, {"number": 3}]
    with pytest.raises(InvalidArguments, match=r"Item 1: .*'number'"):
        await ship(app).enqueue_many(wrong)
    with pytest.raises(InvalidArguments, match="Item 0: ship: expected a mapping of arguments, got 7"):
        await ship(app).enqueue_many([7])  # type: ignore[list-item]  # the point
    assert await stored(raw) == {}


async def test_a_bulk_of_nothing_needs_no_database() -> None:
    task = ship(Rowlock("postgresql://nowhere/x"))
    assert await task.enqueue_many([]) == []
    assert task.enqueue_many_sync([]) == []


@pytest.mark.parametrize(
    "options",
    [
        {"idempotency_key": "k"},
        {"idempotency_key": str, "unique_key": "k"},
        {"unique_key": "k", "on_conflict": "replace"},
        {"unique_key": "k", "on_conflict": "debounce", "run_in": 1},
    ],
)
async def test_what_a_bulk_cannot_do_is_refused(options: dict[str, Any]) -> None:
    task = ship(Rowlock("postgresql://nowhere/x"))
    with pytest.raises(InvalidOption, match="Enqueue one by one instead"):
        await task.options(**options).enqueue_many(items(1))


async def test_each_row_of_a_bulk_has_its_own_idempotency_key(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    bound = ship(app).options(idempotency_key=lambda number: f"order-{number % 1200}", refs={"x": 1})
    jobs = await bound.enqueue_many(items(2500))
    assert [job.what for job in jobs] == ["created"] * 1200 + ["kept"] * 1300
    assert [job.id for job in jobs[1200:2400]] == [job.id for job in jobs[:1200]]
    assert set((await stored(raw)).values()) == set(range(1200))
    assert await raw.fetchval("SELECT count(*) FROM rowlock.job_refs") == 1200
    await raw.execute("DELETE FROM rowlock.jobs WHERE id = $1", jobs[0].id)
    await raw.execute("UPDATE rowlock.job_keys SET expires_at = now() - interval '1 s' WHERE key = 'order-2'")
    again = await bound.enqueue_many(items(3))
    assert [job.what for job in again] == ["kept", "kept", "created"]
    assert [job.id for job in again[:2]] == [job.id for job in jobs[:2]]
    assert (await bound.enqueue(1)).id == jobs[1].id


async def test_two_bulks_with_the_same_idempotency_keys_make_one_job_each(app: Rowlock) -> None:
    bound = ship(app).options(idempotency_key=lambda number: f"order-{number}")
    one, other = await asyncio.gather(bound.enqueue_many(items(500)), bound.enqueue_many(items(500)[::-1]))
    assert [job.id for job in one] == [job.id for job in other[::-1]]
    assert sorted(job.what for job in (*one, *other)) == ["created"] * 500 + ["kept"] * 500


async def test_two_bulks_in_opposite_order_do_not_deadlock(app: Rowlock, database_url: str) -> None:
    bound = ship(app).options(unique_key=lambda number: f"n-{number}", on_conflict="keep")
    async with asyncpg.create_pool(database_url, min_size=2, max_size=2) as pool:

        async def bulk(rows: list[dict[str, object]]) -> set[int]:
            async with pool.acquire() as connection, connection.transaction():
                joined = ship(app).options(
                    unique_key=lambda number: f"n-{number}", on_conflict="keep", connection=connection
                )
                return {job.id for job in await joined.enqueue_many(rows)}

        forwards, backwards = await asyncio.gather(bulk(items(800)), bulk(items(800)[::-1]))
    assert forwards == backwards
    assert len(await bound.enqueue_many(items(800))) == len(forwards)


async def test_a_bulk_of_several_copies_is_all_or_nothing(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "CHUNK", 10)
    jobs = await ship(app).enqueue_many(items(25))
    found = await stored(raw)
    assert [found[job.id] for job in jobs] == list(range(25))
    await raw.execute("ALTER TABLE rowlock.jobs ADD CONSTRAINT odd CHECK ((args->>'number')::integer <> 124) NOT VALID")
    with pytest.raises(WriteRefused, match="constraint odd of table jobs"):
        await ship(app).enqueue_many([{"number": 100 + n} for n in range(25)])
    assert len(await stored(raw)) == 25


async def test_a_bulk_of_one_copy_is_all_or_nothing(app: Rowlock, raw: asyncpg.Connection[asyncpg.Record]) -> None:
    await raw.execute("ALTER TABLE rowlock.jobs ADD CONSTRAINT odd CHECK ((args->>'number')::integer <> 9)")
    with pytest.raises(WriteRefused, match="constraint odd of table jobs"):
        await ship(app).enqueue_many(items(10))
    assert await stored(raw) == {}
    assert len(await ship(app).enqueue_many(items(5))) == 5


@pytest.mark.parametrize("key", ["unique_key", "idempotency_key"])
async def test_two_bulks_with_the_same_keys_in_opposite_order_both_end(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr(insert, "BATCH", 10)
    task = ship(app)
    keyed = task.options(on_conflict="keep", **{key: lambda number: f"{number:03}"})  # type: ignore[arg-type]
    before = await raw.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    forwards, backwards = await asyncio.gather(keyed.enqueue_many(items(200)), keyed.enqueue_many(items(200)[::-1]))
    assert [job.id for job in forwards] == [job.id for job in backwards[::-1]]
    await raw.execute("SELECT pg_stat_clear_snapshot()")
    assert await raw.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == before


async def test_a_bulk_is_inserted_in_key_order_whatever_its_batches(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insert, "BATCH", 7)
    made = await ship(app).options(unique_key=lambda number: f"{number * 37 % 101:03}").enqueue_many(items(50))
    keys = await raw.fetch("SELECT unique_key FROM rowlock.jobs ORDER BY id")
    assert [row[0] for row in keys] == sorted(row[0] for row in keys)
    found = await stored(raw)
    assert [found[job.id] for job in made] == list(range(50))
