from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from typing import TYPE_CHECKING, Any, Self, cast

import asyncpg
import pytest
from tests.databases import fresh
from tests.store.callers.neighbours import AUTOCOMMIT, LEVELS, NEIGHBOURS, TABLE, Undo, neighbour
from tests.waiting import busy_for, eventually

from rowlock import DatabaseBusy, Rowlock, Task
from rowlock.model.lane import Lane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import psycopg

NUMBERS = itertools.count(1)
every_neighbour = pytest.mark.parametrize("name", NEIGHBOURS)
every_level = pytest.mark.parametrize("isolation", LEVELS)


@pytest.fixture(scope="module")
def url(administrator: psycopg.Connection[Any], server_url: str, template: str) -> Iterator[str]:
    """One database for the tests of this file that only look at rows of their own number."""
    with fresh(administrator, server_url, template) as made:
        yield made


class Observer:
    """Looks from a connection of its own."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self.connection = connection

    async def sees(self, number: int) -> tuple[bool, bool]:
        """Whether the business row is there, and whether the job is."""
        row = await self.connection.fetchrow(
            "SELECT EXISTS (SELECT FROM orders WHERE id = $1) AS business,"
            " EXISTS (SELECT FROM rowlock.jobs WHERE args->>'number' = $1::text) AS job",
            number,
        )
        assert row is not None
        return row["business"], row["job"]


@pytest.fixture
async def observer(url: str) -> AsyncIterator[Observer]:
    connection = await asyncpg.connect(url)
    await connection.execute(TABLE)
    yield Observer(connection)
    await connection.close()


@pytest.fixture
async def app(url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(url) as app:
        yield app


def ship(app: Rowlock) -> Task[[int], int]:
    @app.job("ship")
    async def ship(number: int) -> int:
        return number

    return ship


@every_neighbour
@every_level
async def test_commit_shows_the_row_and_the_job_together(
    name: str, isolation: str, url: str, app: Rowlock, observer: Observer
) -> None:
    number = next(NUMBERS)
    async with neighbour(name, url, isolation) as caller:
        await caller.write(number)
        job = await caller.enqueue(ship(app), number)
        assert await observer.sees(number) == (False, False)
        await caller.commit()
        assert await observer.sees(number) == (True, True)
    stored = await app.jobs.get(job.id)
    assert (stored.kind, stored.args, stored.state) == ("ship", {"number": number}, "queued")


@every_neighbour
@every_level
async def test_rollback_leaves_neither(name: str, isolation: str, url: str, app: Rowlock, observer: Observer) -> None:
    number = next(NUMBERS)
    async with neighbour(name, url, isolation) as caller:
        await caller.write(number)
        await caller.enqueue(ship(app), number)
        await caller.rollback()
        assert await observer.sees(number) == (False, False)
        # The connection is as good as before.
        await caller.write(number)
        await caller.enqueue(ship(app), number)
        await caller.commit()
    assert await observer.sees(number) == (True, True)


@every_neighbour
@every_level
async def test_a_savepoint_takes_its_row_and_its_job_with_it(
    name: str, isolation: str, url: str, app: Rowlock, observer: Observer
) -> None:
    outer, undone, released = next(NUMBERS), next(NUMBERS), next(NUMBERS)
    async with neighbour(name, url, isolation) as caller:
        await caller.write(outer)
        await caller.enqueue(ship(app), outer)
        async with caller.savepoint():
            await caller.write(undone)
            await caller.enqueue(ship(app), undone)
            raise Undo
        async with caller.savepoint():
            await caller.write(released)
            await caller.enqueue(ship(app), released)
        assert await observer.sees(released) == (False, False)
        await caller.commit()
    assert await observer.sees(outer) == (True, True)
    assert await observer.sees(undone) == (False, False)
    assert await observer.sees(released) == (True, True)


@every_neighbour
@every_level
async def test_an_exception_that_closes_the_connection_leaves_neither(
    name: str, isolation: str, url: str, app: Rowlock, observer: Observer
) -> None:
    number = next(NUMBERS)

    async def request() -> None:
        async with neighbour(name, url, isolation) as caller:
            await caller.write(number)
            await caller.enqueue(ship(app), number)
            raise Undo

    with pytest.raises(Undo):
        await request()
    assert await observer.sees(number) == (False, False)


@every_neighbour
async def test_autocommit_shows_the_job_at_once(name: str, url: str, app: Rowlock, observer: Observer) -> None:
    number = next(NUMBERS)
    async with neighbour(name, url, AUTOCOMMIT) as caller:
        await caller.write(number)
        assert await observer.sees(number) == (True, False)
        await caller.enqueue(ship(app), number)
        assert await observer.sees(number) == (True, True)


@every_neighbour
async def test_every_option_reaches_the_row_through_every_driver(name: str, url: str, app: Rowlock) -> None:
    number = next(NUMBERS)
    options: dict[str, Any] = {
        "priority": -7,
        "run_in": "90s",
        "expires_in": "1h",
        "max_age": "1 day",
        "max_attempts": 9,
        "tenant": "100 % acme",
        "submitted_by": 'ada "the first"',
        "refs": {"project": number, "name": "50 %s"},
        "tags": ["blue", "a,b{}"],
        "meta": {"deep": [1, {"x": None}], "text": "%(kind)s :kind $1"},
        "unique_key": f"order-{number}",
    }
    async with neighbour(name, url) as caller:
        task, joins = ship(app), caller.joins
        blocking = type(caller).__name__ in ("Blocking", "Alchemy")
        bound = task.options(session=joins, **options)
        job = bound.enqueue_sync(number) if blocking else await bound.enqueue(number)
        await caller.commit()
    stored = await app.jobs.get(job.id)
    assert (stored.priority, stored.max_attempts, stored.tenant) == (-7, 9, "100 % acme")
    assert (stored.submitted_by, stored.tags) == ('ada "the first"', ("blue", "a,b{}"))
    assert (stored.refs, stored.meta) == (options["refs"], options["meta"])
    assert stored.unique_key == f"ship:order-{number}"
    assert stored.expires_at is not None
    assert (stored.expires_at - stored.run_after).total_seconds() == 3600
    assert stored.too_old_at is not None
    assert 89 < (stored.run_after - stored.created_at).total_seconds() <= 90.001


@every_neighbour
async def test_a_bulk_joins_too(name: str, url: str, app: Rowlock, observer: Observer) -> None:
    numbers = [next(NUMBERS) for _ in range(30)]
    items = [{"number": number} for number in numbers]
    async with neighbour(name, url) as caller:
        bound = ship(app).options(
            session=caller.joins, unique_key=lambda number: f"bulk-{number}", refs={"bulk": name}, gate="one"
        )
        blocking = type(caller).__name__ in ("Blocking", "Alchemy")
        await caller.write(numbers[0])
        jobs = bound.enqueue_many_sync(items) if blocking else await bound.enqueue_many(items)
        assert await observer.sees(numbers[0]) == (False, False)
        await caller.commit()
    assert [job.what for job in jobs] == ["created"] * 30
    found = {job.id: job.args["number"] for job in await app.jobs.many(job.id for job in jobs)}
    assert [found[job.id] for job in jobs] == numbers


class Wire:
    """Hears what workers hear."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.woken: list[list[Any]] = []
        self._marks: set[str] = set()

    async def __aenter__(self) -> Self:
        self._connection = await asyncpg.connect(self._url)
        await self._connection.add_listener("rowlock_events", self._heard)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    def _heard(self, _c: object, _p: int, _n: str, payload: object) -> None:
        message = json.loads(str(payload))
        self.woken += message.get("wake", [])
        if "mark" in message:
            self._marks.add(message["mark"])

    async def everything_so_far(self) -> list[list[Any]]:
        """Send a mark and wait for it: messages arrive in the order of their commits."""
        mark = f"mark-{next(NUMBERS)}"
        await self._connection.execute("SELECT pg_notify('rowlock_events', $1)", json.dumps({"mark": mark}))

        async def heard() -> bool:
            return mark in self._marks

        await eventually(heard)
        return self.woken


class Started:
    """A worker whose lane polls once a minute, and what it started when."""

    def __init__(self, url: str) -> None:
        self.app = Rowlock(url)
        self.at: dict[int, float] = {}

        @self.app.job("ship", lane="slow")
        async def ship(number: int) -> None:
            self.at[number] = asyncio.get_running_loop().time()

        self.ship = ship

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        await self.app.lanes.create(Lane("slow", kinds=("ship",)))
        await self.app.lanes.set("slow", poll_interval="60s")
        async with self.app, self.app.worker(), self.app.database().connection() as connection:
            await connection.execute(TABLE)
            yield

    async def started(self, number: int) -> float:
        async def look() -> float | None:
            return self.at.get(number)

        return cast("float", await eventually(look))


@every_neighbour
async def test_a_late_commit_wakes_a_hungry_worker(name: str, database_url: str) -> None:
    worker = Started(database_url)
    async with worker.working(), Wire(database_url) as wire, neighbour(name, database_url) as caller:
        await worker.ship.enqueue(1)
        await worker.started(1)
        await caller.write(2)
        job = await caller.enqueue(worker.ship, 2)
        await busy_for(0.3)  # a request that takes its time: the cursor moves past its job's place meanwhile
        await worker.ship.enqueue(3)
        await worker.started(3)
        assert 2 not in worker.at
        await worker.app._producer.wakers.flush()
        await wire.everything_so_far()
        wire.woken.clear()
        await caller.commit()
        await worker.started(2)

        async def told() -> bool:
            return len(await wire.everything_so_far()) > 0

        await eventually(told)
        (pair_and_low,) = wire.woken
        assert pair_and_low == ["ship", 0, 0, (await worker.app.jobs.get(job.id)).run_after.timestamp()]


@every_neighbour
async def test_a_rollback_wakes_nobody_and_never_runs(name: str, database_url: str) -> None:
    worker = Started(database_url)
    async with worker.working(), Wire(database_url) as wire, neighbour(name, database_url) as caller:
        await caller.write(1)
        await caller.enqueue(worker.ship, 1)
        await caller.rollback()
        await worker.app._producer.wakers.flush()
        assert await wire.everything_so_far() == []
        await caller.write(2)
        await caller.enqueue(worker.ship, 2)
        await caller.commit()
        await worker.started(2)
        assert 1 not in worker.at


@every_neighbour
async def test_autocommit_wakes_at_once(name: str, database_url: str) -> None:
    worker = Started(database_url)
    async with worker.working(), Wire(database_url) as wire, neighbour(name, database_url, AUTOCOMMIT) as caller:
        await caller.enqueue(worker.ship, 1)
        await worker.started(1)

        async def told() -> bool:
            return [line[0] for line in await wire.everything_so_far()] == ["ship"]

        await eventually(told)


@pytest.mark.parametrize("isolation", LEVELS[1:])
@pytest.mark.parametrize("option", ["unique_key", "idempotency_key"])
async def test_a_key_taken_since_the_snapshot_asks_for_the_transaction_again(
    isolation: str, option: str, url: str, app: Rowlock
) -> None:
    number = next(NUMBERS)
    connection = await asyncpg.connect(url)
    keyed: dict[str, Any] = {option: f"taken-{number}"}
    transaction = connection.transaction(isolation=isolation.lower().replace(" ", "_"))  # type: ignore[arg-type]
    await transaction.start()
    await connection.execute("SELECT 1")
    await ship(app).options(**keyed).enqueue(number)
    with pytest.raises(DatabaseBusy, match="roll it back and run all of it again") as busy:
        await ship(app).options(**keyed, connection=connection).enqueue(number)
    assert busy.value.sqlstate == "40001"
    assert isinstance(busy.value.__cause__, asyncpg.SerializationError)
    await transaction.rollback()
    await connection.close()
