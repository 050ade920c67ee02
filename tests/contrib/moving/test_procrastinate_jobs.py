"""Jobs move from Procrastinate's own table, written by Procrastinate itself, beside its worker."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import procrastinate
import psycopg
import pytest
from tests.waiting import eventually, in_time

from rowlock import ConfigurationError, Retry, Rowlock, Settings
from rowlock.contrib.moving.procrastinate import App
from rowlock.contrib.moving.procrastinate_jobs import ProcrastinateMove
from rowlock.errors import UnknownKind
from rowlock.store.procrastinate import ProcrastinateTable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LATER = datetime(2099, 1, 1, tzinfo=UTC)


class Old:
    """A Procrastinate application with its tables in a database."""

    def __init__(self, url: str) -> None:
        self.url, self.ran = url, list[str]()
        self.app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

        @self.app.task(name="shop.mail", queue="mails")
        async def mail(name: str) -> None:
            self.ran.append(name)

        @self.app.task(name="shop.gone")
        async def gone() -> None: ...

        self.mail, self.gone = mail, gone

    async def rows(self, sql: str) -> list[Any]:
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            found = await connection.execute(sql)
            return list(await found.fetchall()) if found.description else []

    async def statuses(self) -> list[str]:
        return [row[0] for row in await self.rows("SELECT status::text FROM procrastinate_jobs ORDER BY id")]


@contextlib.asynccontextmanager
async def old_at(url: str) -> AsyncIterator[Old]:
    old = Old(url)
    async with old.app.open_async():
        await old.app.schema_manager.apply_schema_async()
        yield old


@pytest.fixture
async def here(database_url: str) -> AsyncIterator[Old]:
    async with old_at(database_url) as old:
        yield old


@pytest.fixture
async def elsewhere(empty_database_url: str) -> AsyncIterator[Old]:
    async with old_at(empty_database_url) as old:
        yield old


class New:
    """The same task on Rowlock."""

    def __init__(self, url: str) -> None:
        self.rowlock, self.ran = Rowlock(url, settings=Settings()), list[str]()

        @App(self.rowlock).task(name="shop.mail", queue="mails", retry=3)
        async def mail(name: str) -> None:
            self.ran.append(name)

        self.mail = mail

    async def waiting(self) -> list[dict[str, Any]]:
        jobs = await self.rowlock.jobs.list()
        return [dict(job.args) for job in sorted(jobs, key=lambda job: job.id)]


@pytest.fixture
async def new(database_url: str) -> AsyncIterator[New]:
    made = New(database_url)
    async with made.rowlock:
        yield made


async def test_a_waiting_job_is_moved_with_everything_it_has(here: Old, new: New) -> None:
    options: Any = {"lock": "ledger", "queueing_lock": "daily", "priority": 500, "schedule_at": LATER}
    await here.mail.configure(**options).defer_async(name="ada")
    await here.mail.defer_async(name="bob")
    report = await ProcrastinateMove(new.rowlock).run()
    assert (report.moved, report.left, report.priorities_limited) == ({"shop.mail": 2}, [], 1)
    assert await here.statuses() == ["cancelled", "cancelled"]
    bob, ada = await new.rowlock.jobs.list()
    assert (ada.args, ada.gate_key, ada.unique_key, ada.priority) == ({"name": "ada"}, "ledger", "*:daily", 100)
    assert (ada.run_after, ada.max_attempts) == (LATER, 4)
    assert ada.meta == {"procrastinate": {"id": 1, "task": "shop.mail", "queue": "mails"}}
    assert (bob.args, bob.priority) == ({"name": "bob"}, 0)
    again = await ProcrastinateMove(new.rowlock).run()
    assert (again.moved, again.left) == ({}, [])


async def test_a_dry_run_checks_every_job_and_writes_nothing(here: Old, new: New) -> None:
    await here.mail.defer_async(name="ada")
    await here.mail.configure(task_kwargs={"nam": "bob"}).defer_async()
    report = await ProcrastinateMove(new.rowlock, dry_run=True).run()
    assert report.moved == {"shop.mail": 1}
    ((left),) = report.left
    assert (left.id, left.task) == (2, "shop.mail")
    assert "name" in left.reason
    assert (await here.statuses(), await new.waiting()) == (["todo", "todo"], [])


async def test_unknown_tasks_stop_the_move_before_it_begins_unless_they_may_be_left(here: Old, new: New) -> None:
    await here.mail.defer_async(name="ada")
    await here.gone.defer_async()
    with pytest.raises(UnknownKind, match=r"shop\.gone \(1\).*Nothing was moved.*--leave-unknown"):
        await ProcrastinateMove(new.rowlock).run()
    assert (await here.statuses(), await new.waiting()) == (["todo", "todo"], [])
    report = await ProcrastinateMove(new.rowlock, leave_unknown=True).run()
    assert [(job.id, job.reason) for job in report.left] == [(2, "no kind 'shop.gone'")]
    assert (await here.statuses(), await new.waiting()) == (["cancelled", "todo"], [{"name": "ada"}])


async def test_a_running_job_and_one_that_is_being_fetched_are_left(here: Old, new: New) -> None:
    await here.mail.defer_async(name="running")
    await here.rows("UPDATE procrastinate_jobs SET status = 'doing' RETURNING id")
    await here.mail.defer_async(name="fetched")
    await here.mail.defer_async(name="waiting")
    async with await psycopg.AsyncConnection.connect(here.url) as fetching:
        await fetching.execute("SELECT 1 FROM procrastinate_jobs WHERE id = 2 FOR UPDATE")
        report = await in_time(ProcrastinateMove(new.rowlock).run())
    assert (report.running, report.moved) == (1, {"shop.mail": 1})
    assert [(job.id, job.reason) for job in report.left] == [(2, "a worker of Procrastinate fetched it meanwhile")]
    assert await here.statuses() == ["doing", "todo", "cancelled"]


async def test_only_a_job_that_still_waits_is_taken(here: Old, new: New, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the table and the take a worker begins one of the jobs."""
    await here.mail.defer_async(name="begun")
    await here.mail.defer_async(name="waiting")
    take = ProcrastinateTable.take

    async def late(table: ProcrastinateTable, ids: Any, *, parked: bool) -> Any:  # noqa: ANN401 - as take()
        await here.rows("UPDATE procrastinate_jobs SET status = 'doing' WHERE id = 1")
        return await take(table, ids, parked=parked)

    monkeypatch.setattr(ProcrastinateTable, "take", late)
    report = await in_time(ProcrastinateMove(new.rowlock).run())
    assert [job.id for job in report.left] == [1]
    assert (await here.statuses(), await new.waiting()) == (["doing", "cancelled"], [{"name": "waiting"}])


async def test_a_job_that_rowlock_refuses_waits_there_again(here: Old, new: New) -> None:
    await here.mail.configure(queueing_lock="daily").defer_async(name="there")
    number = await new.mail.configure(queueing_lock="daily", schedule_at=LATER).defer_async(name="here")
    report = await ProcrastinateMove(new.rowlock).run()
    (left,) = report.left
    assert "daily" in left.reason
    assert (await here.statuses(), await new.waiting()) == (["todo"], [{"name": "here"}])
    await new.rowlock.jobs.cancel(number)
    assert (await ProcrastinateMove(new.rowlock).run()).moved == {"shop.mail": 1}


async def test_what_was_taken_back_can_be_moved_again(here: Old, new: New) -> None:
    await here.mail.defer_async(name="ada")
    await ProcrastinateMove(new.rowlock).run()
    (job,) = await new.rowlock.jobs.list()
    await new.rowlock.jobs.cancel(job.id)
    await here.rows("UPDATE procrastinate_jobs SET status = 'todo'")
    report = await ProcrastinateMove(new.rowlock).run()
    assert (report.moved, report.moved_before) == ({"shop.mail": 1}, 0)


async def test_attempts_that_were_used_there_are_used_here(here: Old, new: New) -> None:
    await here.mail.defer_async(name="ada")
    await here.rows("UPDATE procrastinate_jobs SET attempts = 2")
    await here.mail.defer_async(name="bob")
    await here.rows("UPDATE procrastinate_jobs SET attempts = 9 WHERE id = 2")
    await ProcrastinateMove(new.rowlock).run()
    assert [job.max_attempts for job in await new.rowlock.jobs.list()] == [1, 2]


class BrokenOff(Exception):
    """The process ends here."""


@pytest.mark.parametrize("at", ["taken", "written"])
async def test_a_move_from_another_database_that_breaks_off_is_completed_by_the_next(
    elsewhere: Old, new: New, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    for name in ("ada", "bob", "eve"):
        await elsewhere.mail.defer_async(name=name)

    async def broken(*_: object) -> None:
        raise BrokenOff

    with monkeypatch.context() as patched:
        if at == "taken":
            patched.setattr(ProcrastinateMove, "_write", broken)
        else:
            patched.setattr(ProcrastinateTable, "settle", broken)
        with pytest.raises(BrokenOff):
            await ProcrastinateMove(new.rowlock, source_url=elsewhere.url, batch=2).run()
    # Neither side runs a job that is under way twice.
    assert await elsewhere.statuses() == ["cancelled", "cancelled", "todo"]
    report = await ProcrastinateMove(new.rowlock, source_url=elsewhere.url, batch=2).run()
    assert (sum(report.moved.values()), report.moved_before) == ((3, 0) if at == "taken" else (1, 2))
    assert await new.waiting() == [{"name": "ada"}, {"name": "bob"}, {"name": "eve"}]
    assert await elsewhere.rows("SELECT id FROM procrastinate_jobs WHERE args ? 'rowlock_moving'") == []
    assert (await ProcrastinateMove(new.rowlock, source_url=elsewhere.url).run()).moved == {}


async def test_a_table_in_another_schema_is_found(empty_database_url: str, new: New) -> None:
    url = f"{empty_database_url}{'&' if '?' in empty_database_url else '?'}options=-csearch_path%3Djobs"
    async with await psycopg.AsyncConnection.connect(empty_database_url, autocommit=True) as connection:
        await connection.execute("CREATE SCHEMA jobs")
    async with old_at(url) as old:
        await old.mail.defer_async(name="ada")
        with pytest.raises(
            ConfigurationError, match=r"no table procrastinate_jobs on the search path.*--source-schema"
        ):
            await ProcrastinateMove(new.rowlock, source_url=empty_database_url).run()
        move = ProcrastinateMove(new.rowlock, source_url=empty_database_url, source_schema="jobs")
        assert (await move.run()).moved == {"shop.mail": 1}
        assert await old.statuses() == ["cancelled"]
    with pytest.raises(ConfigurationError, match="no table procrastinate_jobs in the schema 'jobs'"):
        await ProcrastinateMove(new.rowlock, source_schema="jobs").run()


async def test_both_workers_run_while_jobs_are_moved_and_each_job_runs_once(here: Old, new: New) -> None:
    names = [f"n{number}" for number in range(60)]
    for name in names[:30]:
        await here.mail.defer_async(name=name)
    async with new.rowlock.worker():
        theirs = asyncio.create_task(here.app.run_worker_async(install_signal_handlers=False, listen_notify=False))
        for name in names[30:]:
            await here.mail.defer_async(name=name)
            await new.mail.defer_async(name=f"new {name}")
        moved = 0
        while "todo" in await here.statuses():
            moved += sum((await ProcrastinateMove(new.rowlock, batch=5).run()).moved.values())

        async def all_ran() -> bool:
            return len(here.ran) + len(new.ran) >= 90

        await eventually(all_ran)
        theirs.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await theirs
    assert sorted([*here.ran, *new.ran]) == sorted([*names, *(f"new {name}" for name in names[30:])])
    assert moved == len([name for name in new.ran if not name.startswith("new")])


def test_an_alias_keeps_the_name_of_a_task_that_is_called_otherwise_now(database_url: str) -> None:
    rowlock = Rowlock(database_url)

    @rowlock.job("mail", aliases=("shop.mail",), retry=Retry(attempts=2))
    async def mail(name: str) -> None: ...

    assert ProcrastinateMove(rowlock)._kind("shop.mail", "mails") == "shop.mail"
