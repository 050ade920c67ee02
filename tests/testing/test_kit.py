from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.testing.shop import Shop

from rowlock import DatabaseUnreachable, Settings
from rowlock.testing import Databases, Kit

if TYPE_CHECKING:
    from rowlock import Job


async def connections(url: str) -> int:
    raw = await asyncpg.connect(url)
    try:
        return int(
            await raw.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    finally:
        await raw.close()


def test_the_application_is_as_before_afterwards(database_url: str, databases: Databases) -> None:
    shop = Shop(Settings(database_url=database_url))
    shop.mail.enqueue_sync("before")
    settings, database = shop.app.settings, shop.app.database()
    with Kit(shop.app, databases) as kit:
        assert shop.app.settings.database_url == kit.database_url != database_url
        assert kit.enqueued() == []
        shop.mail.enqueue_sync("inside")
        kit.drain_sync()
    assert shop.app.settings is settings
    assert shop.app.database() is database
    shop.mail.enqueue_sync("after")
    assert shop.said == ["mail inside"]

    async def jobs() -> list[Job]:
        async with shop.app:
            return await shop.app.jobs.list()

    assert [job.args["to"] for job in asyncio.run(jobs())] == ["after", "before"]


async def test_an_application_in_use_waits_for_its_jobs_where_they_are(database_url: str, databases: Databases) -> None:
    shop = Shop(Settings(database_url=database_url))
    async with shop.app, shop.app.worker():
        first = await shop.report.enqueue(org_id=1)
        await first.wait(timeout=20)
        async with Kit(shop.app, databases) as kit, kit.worker():
            assert await (await shop.report.enqueue(org_id=2)).wait(timeout=20) == "report of 2"
        assert await (await shop.report.enqueue(org_id=3)).wait(timeout=20) == "report of 3"


async def test_nothing_is_left_connected(shop: Shop, databases: Databases) -> None:
    async with Kit(shop.app, databases) as kit:
        await shop.mail.enqueue("ada")
        shop.mail.enqueue_sync("bob")
        await kit.drain()
        kit.drain_sync()
        assert await connections(kit.database_url) > 3
        url = kit.database_url
        lent, kit._databases = kit._lent, _Keeps(databases)  # type: ignore[assignment]  # keeps the database for a look
    assert await connections(url) <= 1  # the kit's own observer
    databases.take_back(lent)


class _Keeps:
    def __init__(self, databases: Databases) -> None:
        self.bridge = databases.bridge

    def take_back(self, lent: object) -> None: ...


def test_two_kits_follow_each_other_on_two_databases(shop: Shop, databases: Databases) -> None:
    urls = []
    for _ in range(2):
        with Kit(shop.app, databases) as kit:
            urls.append(kit.database_url)
            shop.report.options(unique_key="same").enqueue_sync(org_id=1)
            kit.assert_enqueued(shop.report, count=1)
    assert len(set(urls)) == 2


def test_closing_twice_is_fine_and_afterwards_the_database_is_gone(shop: Shop, databases: Databases) -> None:
    kit = Kit(shop.app, databases)
    kit.close()
    kit.close()
    with pytest.raises(DatabaseUnreachable):
        shop.mail.enqueue_sync("ada")


async def test_workers_of_the_application_stay_off(shop: Shop, databases: Databases) -> None:
    async with Kit(shop.app, databases) as kit:
        async with shop.app.lifespan():
            job = await shop.mail.enqueue("ada")
            assert (await job.job()).state == "queued"
            assert await shop.app.workers.list() == []
        assert await kit.drain()


def test_a_loop_that_ends_before_the_kit_takes_its_worker_along(
    shop: Shop, databases: Databases, caplog: pytest.LogCaptureFixture
) -> None:
    async def enqueue_and_drain(kit: Kit) -> int:
        await shop.mail.enqueue("ada")
        return len(await kit.drain())

    with Kit(shop.app, databases) as kit:
        assert [asyncio.run(enqueue_and_drain(kit)) for _ in range(2)] == [1, 1]
        assert kit.drop_connections() <= 2  # observers; both loops closed theirs
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_another_schema_name(server_url: str, databases: Databases) -> None:
    shop = Shop(Settings(database_url=server_url, schema="Jobs & co"))
    with Kit(shop.app, databases) as kit:
        shop.report.options(run_in="1h").enqueue_sync(org_id=1)
        kit.travel_sync("1h")
        assert kit.drain_sync()
