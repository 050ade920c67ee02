from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from tests.waiting import eventually, until
from tests.webhook_receiver import LOOPBACK, receiving
from typing_extensions import override

from rowlock import Lane, Retry, Rowlock, State
from rowlock.delivery.backend import Delivery
from rowlock.desk.doctor import Doctor
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection


class Broker(Delivery):
    """A carrier under the test's control: it may be away, lose messages, and brings none by itself."""

    def __init__(self, *, redeliver_after: str) -> None:
        super().__init__(name="broker", redeliver_after=redeliver_after)
        self.kept: dict[str, str] = {}
        self.queues: list[str] = []
        self.sent = 0
        self.away = False

    @override
    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = "default") -> str | None:
        assert job_type
        if self.away:
            raise ConnectionRefusedError("the broker is away")
        self.sent += 1
        self.queues.append(queue_name)
        self.kept[f"m{self.sent}"] = payload["job_id"]
        return f"m{self.sent}"

    @override
    async def missing(self, backend_job_ids: Collection[str]) -> Collection[str]:
        return [each for each in backend_job_ids if each not in self.kept]


@pytest.fixture
def broker() -> Broker:
    return Broker(redeliver_after="1h")


@pytest.fixture
async def app(database_url: str, broker: Broker) -> AsyncIterator[Rowlock]:
    made = Rowlock(database_url, delivery=broker)

    @made.job(retry=Retry(attempts=3, minimum="0s", jitter="0s"))
    async def work(number: int) -> int:
        if number < 0:
            raise ValueError(number)
        return number

    yield made
    await made.close()


@pytest.fixture
async def sql(database_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    link = await asyncpg.connect(database_url, server_settings={"search_path": "rowlock"})
    yield link
    await link.close()


async def settle(app: Rowlock) -> None:
    """Everything that was noted is sent."""
    await app._producer.wakers.flush()


async def look(app: Rowlock) -> int:
    """The duty, as if a second had passed since the last one."""
    outbox = app._outbox()
    assert outbox is not None
    return await outbox.look()


async def test_a_message_follows_the_commit_and_its_id_is_the_jobs(app: Rowlock, broker: Broker) -> None:
    job = await app.tasks["work"].enqueue(1)
    await settle(app)
    assert broker.kept == {"m1": job.public_id}
    assert broker.queues == ["default"]
    assert (await job.job()).backend_job_id == "m1"
    found = await app.jobs.search("backend:m1")
    assert [one.id for one in found.items] == [job.id]
    assert [one.id for one in (await app.jobs.search("backend:m*")).items] == [job.id]
    assert (await app.jobs.search("backend:m2")).items == []


async def test_a_job_of_postgresql_has_no_row_among_the_deliveries(
    database_url: str, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    app = Rowlock(database_url)

    @app.job
    async def plain() -> None: ...

    job = await plain.enqueue()
    async with app.worker():
        await job.wait(timeout=30)
    assert (await job.job()).backend_job_id is None
    assert await sql.fetchval("SELECT count(*) FROM job_deliveries") == 0
    assert await sql.fetchval("SELECT count(*) FROM duties WHERE name LIKE 'deliver%'") == 0
    await app.close()


async def test_a_rolled_back_job_has_no_message(
    app: Rowlock, broker: Broker, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    transaction = sql.transaction()
    await transaction.start()
    await app.tasks["work"].options(connection=sql).enqueue(1)
    await transaction.rollback()
    async with sql.transaction():
        kept = await app.tasks["work"].options(connection=sql).enqueue(2)
    # A commit on the caller's own connection is not seen: the next look finds the job.
    await settle(app)
    await look(app)
    assert list(broker.kept.values()) == [kept.public_id]


async def test_a_bulk_is_delivered_whole(app: Rowlock, broker: Broker) -> None:
    await app.tasks["work"].enqueue_many([{"number": n} for n in range(1200)])
    await settle(app)
    assert len(broker.kept) == len(set(broker.kept.values())) == 1200


async def test_each_stay_in_the_queue_has_its_own_message(app: Rowlock, broker: Broker) -> None:
    job = await app.tasks["work"].enqueue(-1)
    await settle(app)
    for attempt in (1, 2):
        await app.run_delivered(job.id)

        async def told(n: int = attempt + 1) -> bool:
            return broker.sent == n

        await eventually(told)
    await app.run_delivered(job.id)
    assert (await job.job()).state is State.FAILED
    await app.jobs.retry(job.id)
    await until(lambda: broker.sent == 4)


async def test_a_job_that_waits_is_told_once_however_often_anyone_looks(app: Rowlock, broker: Broker) -> None:
    await app.tasks["work"].enqueue(1)
    await settle(app)
    assert [await look(app) for _ in range(3)] == [0, 0, 0]
    assert broker.sent == 1


async def test_two_processes_that_look_at_once_send_one_message(app: Rowlock, broker: Broker) -> None:
    broker.away = True
    await app.tasks["work"].enqueue_many([{"number": n} for n in range(50)])
    await settle(app)
    broker.away = False
    assert sum(await asyncio.gather(*(look(app) for _ in range(4)))) == 50
    assert broker.sent == 50


async def test_of_two_processes_that_reserve_a_job_at_the_same_moment_one_sends_it(
    app: Rowlock, broker: Broker, sql: asyncpg.Connection[asyncpg.Record], database_url: str
) -> None:
    broker.away = True
    job = await app.tasks["work"].enqueue(1)
    await settle(app)
    statement = app.database().statements["reserve_ids"]
    values = statement.bind({"ids": [job.id], "carriers": ["broker"], "unsent": timedelta(hours=1)})
    other = await asyncpg.connect(database_url)
    async with sql.transaction():
        assert [row["id"] for row in await sql.fetch(statement.dollar, *values)] == [job.id]
        late = asyncio.create_task(other.fetch(statement.dollar, *values))
        await eventually(lambda: _waits(app, other))
    assert await late == []
    await other.close()


async def _waits(app: Rowlock, link: asyncpg.Connection[asyncpg.Record]) -> bool:
    pool = app.database()
    async with pool.connection() as third:
        waiting = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1"
        return bool(await third.fetchval(waiting, link.get_server_pid()))


async def test_one_process_of_an_application_looks_at_a_time(app: Rowlock) -> None:
    first, second = app._outbox(), app._outbox()
    assert first is not None
    assert second is not None
    await first.look_if_elected()
    rows = await app.database().fetch("elect_deliverer", name="deliver other", every=timedelta(hours=1))
    assert len(rows) == 1
    assert not await app.database().fetch("elect_deliverer", name="deliver other", every=timedelta(hours=1))


async def test_without_the_broker_the_enqueue_succeeds_and_the_message_follows(
    app: Rowlock, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rowlock.delivery")
    broker.away = True
    job = await app.tasks["work"].enqueue(1)
    await settle(app)
    assert (await job.job()).state is State.QUEUED
    assert "broker takes no messages; jobs wait in the table" in caplog.text
    broker.away = False
    assert await look(app) == 1
    assert (await job.job()).backend_job_id == "m1"


async def test_a_lost_message_is_sent_again(
    app: Rowlock, broker: Broker, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    job = await app.tasks["work"].enqueue(1)
    await settle(app)
    broker.kept.clear()
    # A message that was just sent may be on its way.
    assert await look(app) == 0
    await sql.execute("UPDATE job_deliveries SET delivered_at = delivered_at - interval '1 minute'")
    await sql.execute("UPDATE jobs SET run_after = run_after - interval '2 minutes'")
    assert await look(app) == 1
    assert broker.kept == {"m2": job.public_id}


async def test_a_carrier_that_cannot_tell_is_told_again_after_a_while_and_ever_more_rarely(
    database_url: str, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    class Silent(Broker):
        @override
        async def missing(self, backend_job_ids: Collection[str]) -> Collection[str]:
            assert backend_job_ids
            return ()

    broker = Silent(redeliver_after="1h")
    app = Rowlock(database_url, delivery=broker)

    @app.job
    async def work() -> None: ...

    await work.enqueue()
    await settle(app)
    waits = []
    for _ in range(3):
        waits.append(
            await sql.fetchval("SELECT round(extract(epoch FROM again_at - delivered_at) / 3600) FROM job_deliveries")
        )
        assert await look(app) == 0
        await sql.execute("UPDATE job_deliveries SET again_at = now() - interval '1 s'")
        assert await look(app) == 1
    assert waits == [1, 2, 4]
    await app.close()


async def test_a_process_that_died_before_it_sent_a_message_keeps_no_job_back(
    app: Rowlock, broker: Broker, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    broker.away = True
    job = await app.tasks["work"].enqueue(1)
    await settle(app)
    broker.away = False
    await sql.execute(
        "UPDATE job_deliveries SET backend_job_id = NULL, delivered_at = now(), again_at = now() + interval '10 s'"
    )
    assert await look(app) == 0
    await sql.execute("UPDATE job_deliveries SET again_at = now()")
    assert await look(app) == 1
    assert broker.kept == {"m1": job.public_id}


async def test_a_message_for_a_job_that_was_put_off_does_not_stand_for_its_new_time(
    app: Rowlock, broker: Broker, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    job = await app.tasks["work"].enqueue(1)
    await settle(app)
    await sql.execute("UPDATE jobs SET run_after = now() + interval '1 hour'")
    assert await app.run_delivered(job.id) is None
    assert await look(app) == 0
    await sql.execute("UPDATE jobs SET run_after = now()")
    assert await look(app) == 1
    assert broker.sent == 2


async def test_a_lane_with_a_cap_gets_as_many_messages_as_it_has_room(app: Rowlock, broker: Broker) -> None:
    await app.lanes.create(Lane("default", kinds=("*",), max_total=2))
    jobs = [await app.tasks["work"].enqueue(n) for n in range(5)]
    await settle(app)
    assert [await look(app), broker.sent] == [0, 2]
    assert await app.run_delivered(jobs[0].id) is not None
    await until(lambda: broker.sent == 3)


async def test_a_drained_lane_gets_no_messages(app: Rowlock, broker: Broker) -> None:
    await app.lanes.create(Lane("default", kinds=("*",)))
    await app.lanes.drain("default")
    await app.tasks["work"].enqueue(1)
    await settle(app)
    assert [await look(app), broker.sent] == [0, 0]
    await app.lanes.resume("default")
    assert [await look(app), broker.sent] == [1, 1]


async def test_a_message_that_came_while_its_lane_was_drained_is_followed_by_another(
    app: Rowlock, broker: Broker
) -> None:
    job = await app.tasks["work"].enqueue(1)
    await settle(app)
    await app.run_delivered((await app.tasks["work"].enqueue(2)).id)
    await app.lanes.drain("default")
    assert await app.run_delivered(job.id) is None
    await app.lanes.resume("default")
    await until(lambda: list(broker.kept.values()).count(job.public_id) == 2)


async def test_a_process_without_the_code_of_a_job_leaves_it_to_others(
    app: Rowlock, broker: Broker, database_url: str, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    job = await app.tasks["work"].enqueue(1)
    await settle(app)
    other = Rowlock(database_url, delivery=Broker(redeliver_after="1h"))
    assert await other.run_delivered(job.id) is None
    await other.close()
    assert (await job.job()).state is State.QUEUED
    assert await sql.fetchval("SELECT again_at < now() + interval '1 minute' FROM job_deliveries")
    assert broker.sent == 1


async def test_workers_leave_the_jobs_of_carriers_alone(app: Rowlock, broker: Broker, database_url: str) -> None:
    job = await app.tasks["work"].enqueue(1)
    plain = Rowlock(database_url)

    @plain.job
    async def local() -> str:
        return "here"

    async with app.worker(), plain.worker(name="plain"):
        assert await (await local.enqueue()).wait(timeout=30) == "here"
        assert (await job.job()).state is State.QUEUED
    assert broker.sent >= 1
    await plain.close()


async def test_a_worker_with_carriers_does_their_upkeep(
    app: Rowlock, broker: Broker, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    broker.away = True
    await app.tasks["work"].enqueue(1)
    await settle(app)
    broker.away = False
    async with app.worker():
        await until(lambda: broker.sent == 1)
    assert await sql.fetchval("SELECT count(*) FROM duties WHERE name LIKE 'deliver %'") == 1


async def test_a_carrier_of_every_job_brings_webhooks_too(database_url: str, broker: Broker) -> None:
    settings = Settings(database_url=database_url, webhook_networks=LOOPBACK, webhook_http=True)
    app = Rowlock(settings=settings, delivery=broker)

    @app.job
    async def work() -> None: ...

    async with receiving() as receiver, app.worker():
        await app.webhooks.add(receiver.url)
        job = await work.enqueue()
        await settle(app)
        await app.run_delivered(job.id)
        await until(lambda: len(broker.kept) == 2)
        _, delivery = broker.kept.values()
        assert (await app.jobs.explain(delivery)).codes[0] == "delivered"
        await app.run_delivered(delivery)
        (message,) = await receiver.received()
        assert message.data["id"] == job.public_id
    await app.close()


@pytest.mark.parametrize("process", ["a worker", "upkeep only", "a receiver"])
async def test_processes_behind_a_carrier_say_so_and_the_doctor_asks_for_no_worker(app: Rowlock, process: str) -> None:
    job = await app.tasks["work"].enqueue(1)
    await settle(app)
    worker = app.make_worker(claims=process == "a worker", upkeep_only=process == "upkeep only")
    await worker.start()
    try:
        (view,) = await app.workers.list()
        assert view.carrier_of("work", "default") == "broker"
        assert (await app.jobs.explain(job.id)).codes == ["delivered"]
        found = await Doctor(app.database(), app.settings, sorted(app.handlers)).examine()
        assert [
            each.says for each in found if each.check in ("workers", "lanes", "kinds") and each.verdict != "ok"
        ] == []
    finally:
        await worker.stop()
