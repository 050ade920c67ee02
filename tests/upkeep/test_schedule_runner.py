"""Schedules as workers fire them: each slot has its job once, whoever fires it and whatever becomes of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from tests.factories import Store, beating, opened
from tests.waiting import eventually, in_time

from rowlock import Context, Rowlock
from rowlock.desk.schedule_fire import fire
from rowlock.errors import DatabaseUnreachable, InvalidArguments
from rowlock.model.schedule import due_slots
from rowlock.settings import Settings
from rowlock.store.rows.schedules import schedule_of
from rowlock.upkeep.schedule_runner import ScheduleRunner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from rowlock.desk.submit import Submit
    from rowlock.model.options import Options
    from rowlock.model.schedule import Schedule

SRC = Path(__file__).parent.parent.parent / "src" / "rowlock"


class Stage:
    """Applications on one database, and a store to look with."""

    def __init__(self, url: str, store: Store) -> None:
        self.url, self.store, self.apps = url, store, list[Rowlock]()
        self.app = self.another()

    def another(self, *, code: bool = True) -> Rowlock:
        """code: it has the kinds' code."""
        app = Rowlock(self.url, settings=Settings(shutdown_after=timedelta(seconds=1)))
        self.apps.append(app)
        if code:

            @app.job
            async def tick(ctx: Context, n: int = 1) -> str:
                assert ctx.job.meta["schedule"]
                return f"{n} {ctx.job.meta.get('slot')}"

        return app

    async def due(self, name: str = "s", *, hours: float = 0.0, **says: Any) -> Schedule:  # noqa: ANN401 - create()'s
        """A schedule of every hour whose slot was that long ago, in whole slots."""
        await self.app.schedules.create(name, says.pop("kind", "tick"), every="1h", **says)
        await self.store.execute(
            "UPDATE {s}.schedules SET next_at = next_at - make_interval(secs => $2) WHERE name = $1",
            name,
            3600 * (1 + hours),
        )
        return await self.app.schedules.get(name)

    async def round(self, app: Rowlock | None = None) -> int:
        await self.store.execute("UPDATE {s}.duties SET last_run_at = '-infinity'")
        app = app or self.app
        return await ScheduleRunner(app.database(), app.submit)()

    async def slots(self, name: str = "s") -> list[str]:
        rows = await self.store.connection.fetch(
            "SELECT meta ->> 'slot' AS slot FROM rowlock.jobs WHERE meta ->> 'schedule' = $1 ORDER BY id", name
        )
        return [row["slot"] for row in rows]

    async def last_job(self) -> int:
        return int(await self.store.value("SELECT last_job FROM {s}.schedules WHERE name = 's'"))


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    async with opened(database_url) as store:
        stage = Stage(database_url, store)
        yield stage
        for app in stage.apps:
            await app.close()


async def test_a_slot_becomes_a_job_that_knows_it(stage: Stage) -> None:
    before = await stage.due(args={"n": 3}, options={"priority": 7, "tags": ["nightly"]})
    assert await stage.round() == 1
    after = await stage.app.schedules.get("s")
    slot = f"{before.next_at:%Y-%m-%dT%H:%M:%SZ}"
    assert (after.last_at, after.next_at) == (
        before.next_at,
        (before.next_at or datetime.now(UTC)) + timedelta(hours=1),
    )
    (job,) = (await stage.app.jobs.search("ref.schedule:s tag:nightly")).items
    assert (job.id, job.kind, job.args, job.priority) == (after.last_job, "tick", {"n": 3}, 7)
    assert job.meta == {"schedule": "s", "slot": slot}
    assert job.submitted_by == "schedule:s"
    assert after.version == before.version
    assert await stage.round() == 0
    assert (await stage.app.run_job(job.id)).result == f"3 {slot}"


async def test_a_new_schedule_never_fires_for_the_past(stage: Stage) -> None:
    made = await stage.app.schedules.create("s", "tick", "* * * * *", missed="all")
    assert made.next_at is not None
    assert made.next_at > await stage.store.clock()
    assert await stage.round() == 0


@pytest.mark.parametrize(("missed", "expected"), [("none", 0), ("latest", 1), ("all", 4)])
async def test_missed_slots(stage: Stage, missed: Any, expected: int) -> None:  # noqa: ANN401 - one of its words
    due = await stage.due(hours=3, missed=missed)
    # An hour may begin at this moment: what is on time is fired by every rule.
    await stage.store.execute("UPDATE {s}.schedules SET next_at = next_at - interval '1 h'")
    late = datetime.now(UTC).minute == 0
    assert await stage.round() == expected + (1 if missed == "all" else 0) + (1 if missed == "none" and late else 0)
    slots = await stage.slots()
    assert slots == sorted(slots)
    assert due.next_at is not None
    if missed != "all":
        left_out = await stage.app.schedules.get("s")
        assert left_out.skipped_why == "missed"


async def test_more_missed_slots_than_allowed_are_told(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    await stage.due(hours=9, missed="all", most_missed=3)
    assert await stage.round() == 3
    assert "with more than 3 before it" in caplog.text
    assert "with more than 3" in ((await stage.app.schedules.get("s")).skipped_why or "")


async def test_resuming_after_a_pause_goes_by_the_rule_for_missed_slots(stage: Stage) -> None:
    await stage.due(hours=3)
    await stage.app.schedules.pause("s")
    assert await stage.round() == 0
    await stage.app.schedules.resume("s")
    assert await stage.round() == 1


# --- overlap ----------------------------------------------------------------------------------------------------------


async def again(stage: Stage) -> None:
    """The next slot comes."""
    await stage.store.execute(
        "UPDATE {s}.schedules SET next_at = next_at - interval '1 h', last_at = last_at - interval '1 h'"
    )
    await stage.store.execute("DELETE FROM {s}.job_keys")


async def test_an_overlapping_slot_is_skipped_and_told(stage: Stage) -> None:
    await stage.due(overlap="skip")
    assert await stage.round() == 1
    first = await stage.last_job()
    await again(stage)
    assert await stage.round() == 0
    skipped = await stage.app.schedules.get("s")
    assert skipped.skipped_at is not None
    assert "overlap" in (skipped.skipped_why or "")
    assert skipped.last_job == first
    await stage.app.jobs.cancel(first)
    await again(stage)
    assert await stage.round() == 1


async def test_an_overlapping_slot_cancels_a_waiting_run(stage: Stage) -> None:
    await stage.due(overlap="cancel")
    await stage.round()
    first = await stage.last_job()
    await again(stage)
    assert await stage.round() == 1
    assert await stage.store.states(first, await stage.last_job()) == ["cancelled", "queued"]
    (act,) = (await stage.app.jobs.history(first)).acts
    assert (act.verb, act.by, act.note) == ("cancel", "schedule:s", "its next run is due")


async def test_an_overlapping_slot_asks_a_running_run_to_stop(stage: Stage) -> None:
    await stage.due(overlap="cancel")
    await stage.round()
    first = await stage.last_job()
    await stage.store.claim(await stage.store.worker(), first)
    await again(stage)
    assert await stage.round() == 1
    assert (await stage.app.jobs.get(first)).cancel_requested
    assert await stage.store.states(first, await stage.last_job()) == ["running", "queued"]


async def test_runs_that_queue_do_not_mind_each_other(stage: Stage) -> None:
    await stage.due()
    await stage.round()
    await again(stage)
    assert await stage.round() == 1
    assert len(await stage.slots()) == 2


# --- several schedulers -----------------------------------------------------------------------------------------------


async def test_of_many_schedulers_one_fires_a_slot(stage: Stage) -> None:
    others = [stage.another() for _ in range(5)]
    for n in range(5):
        due = await stage.due(f"s{n}", hours=n, missed="all")
        now = await stage.store.clock()
        fired = await asyncio.gather(
            *(fire(app.database(), app.submit, due, due_slots(due, now)) for app in (stage.app, *others))
        )
        assert sum(found is not None for found in fired) == 1
        slots = await stage.slots(f"s{n}")
        assert len(slots) == len(set(slots)) == n + 1


@pytest.mark.parametrize(("change", "quarters"), [("2025-03-30", 4), ("2025-10-26", 12)])
async def test_schedulers_that_race_over_a_change_of_clocks_fire_each_slot_once(
    stage: Stage, change: str, quarters: int
) -> None:
    """Two days in London, from the midnight before the change: clocks go forward, or back, on the second."""
    begin = datetime.fromisoformat(f"{change}T00:00+00:00") - timedelta(days=1)
    end = begin + timedelta(days=2)
    rules = {"day": "30 1 * * *", "hours": "0 * * * *", "quarters": "*/15 1 * * *"}
    for name, text in rules.items():
        made = await stage.app.schedules.create(name, "tick", text, tz="Europe/London", missed="all")
        await stage.store.execute(
            "UPDATE {s}.schedules SET next_at = $2 WHERE name = $1", name, made.rule.after(begin - timedelta(seconds=1))
        )

    async def scheduler(app: Rowlock, now: datetime) -> None:
        for name in rules:
            due = await app.schedules.get(name)
            if due.next_at is not None and due.next_at <= now:
                await fire(app.database(), app.submit, due, due_slots(due, now))

    apps = [stage.app, *(stage.another() for _ in range(3))]
    for hours in range(3, 49, 3):
        now = begin + timedelta(hours=hours, seconds=-1)
        await asyncio.gather(*(scheduler(app, now) for app in apps))
    for name, n in (("day", 2), ("hours", 48), ("quarters", quarters)):
        found = [datetime.fromisoformat(slot) for slot in await stage.slots(name)]
        rule = (await stage.app.schedules.get(name)).rule
        assert found == list(rule.between(begin, end, 100)), name
        assert len(found) == n


class Halting:
    """Submits, and stops in the middle of the transaction until it is let go on."""

    def __init__(self, app: Rowlock) -> None:
        self._submit, self.kinds = app.submit, app.submit.kinds
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, kind: str, args: Any, options: Options, connection: object | None) -> tuple[int, str]:  # noqa: ANN401 - JSON
        made = await self._submit(kind, args, options, connection)
        self.reached.set()
        await self.go_on.wait()
        return made

    @property
    def runs_at_once(self) -> bool:
        return self._submit.runs_at_once

    async def encoded(self, kind: str, args: Any) -> Any:  # noqa: ANN401 - JSON
        return await self._submit.encoded(kind, args)


async def test_a_scheduler_that_dies_in_the_middle_leaves_the_slot_to_the_next(stage: Stage) -> None:
    due = await stage.due()
    now = await stage.store.clock()
    halting: Submit = (held := Halting(stage.app))
    dying = asyncio.create_task(fire(stage.app.database(), halting, due, due_slots(due, now)))
    await held.reached.wait()
    other = stage.another()
    waiting = asyncio.create_task(fire(other.database(), other.submit, due, due_slots(due, now)))
    victim = await eventually(
        lambda: stage.store.value(
            "SELECT (pg_blocking_pids(pid))[1] FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
    )
    assert await stage.slots() == []
    await stage.store.execute("SELECT pg_terminate_backend($1)", victim)
    held.go_on.set()
    fired = await waiting
    assert fired is not None
    assert len(fired.jobs) == 1
    with pytest.raises((DatabaseUnreachable, asyncpg.InterfaceError)):
        await dying
    assert len(await stage.slots()) == 1
    assert await stage.round() == 0


async def test_an_edit_meanwhile_keeps_an_old_reading_from_firing(stage: Stage) -> None:
    due = await stage.due()
    await stage.app.schedules.edit("s", args={"n": 2})
    assert await fire(stage.app.database(), stage.app.submit, due, due_slots(due, await stage.store.clock())) is None
    await stage.app.schedules.pause("s")
    paused = await stage.app.schedules.get("s")
    assert (
        await fire(stage.app.database(), stage.app.submit, paused, due_slots(paused, await stage.store.clock())) is None
    )


async def test_only_the_databases_clock_decides(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock is an hour off, either way, fires what is due and nothing else."""
    real = time.time
    await stage.due("past")
    await stage.app.schedules.create("future", "tick", every="1h")
    await stage.store.execute(
        "UPDATE {s}.schedules SET next_at = clock_timestamp() + interval '30 m' WHERE name = 'future'"
    )
    for off in (3600, -3600):
        monkeypatch.setattr(time, "time", lambda off=off: real() + off)
        await stage.round()
        assert (len(await stage.slots("past")), await stage.slots("future")) == (1, [])
    # And nobody here asks the machine: now() and time() are the database's words.
    asks = [
        path.name
        for path in (
            SRC / "upkeep/schedule_runner.py",
            SRC / "desk/schedule_fire.py",
            SRC / "desk/schedules.py",
            *SRC.glob("model/[csw]*.py"),
        )
        if ".now(" in (text := path.read_text(encoding="utf-8")) or ".time()" in text or "utcnow" in text
    ]
    assert asks == []


async def test_a_kind_without_code_is_left_to_those_who_have_it(stage: Stage) -> None:
    await stage.due()
    stranger = stage.another(code=False)
    assert await stage.round(stranger) == 0
    # It did not even take the turn of the others.
    assert not await stage.store.value("SELECT isfinite(last_run_at) FROM {s}.duties WHERE name = 'schedules'")
    assert await ScheduleRunner(stage.app.database(), stage.app.submit)() == 1


async def test_a_kind_that_needs_no_code_is_fired_by_anybody(stage: Stage) -> None:
    async with stage.app.worker():
        pass
    await stage.due()
    assert await stage.round(stage.another(code=False)) == 1


async def test_a_refused_job_does_not_stop_its_schedule(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    due = await stage.due()
    await stage.due("fine")
    await stage.store.execute("UPDATE {s}.schedules SET args = '{\"n\": \"no number\"}' WHERE name = 's'")
    assert await stage.round() == 1
    after = await stage.app.schedules.get("s")
    assert (after.skipped_at, after.last_job) == (due.next_at, None)
    assert (after.skipped_why or "").startswith("refused: ")
    assert after.next_at is not None
    assert after.next_at > (due.next_at or after.next_at)
    assert "refused" in caplog.text


# --- workers ----------------------------------------------------------------------------------------------------------


async def test_a_worker_fires_at_the_very_moment(stage: Stage) -> None:
    async with stage.app.worker():
        await stage.app.schedules.create("s", "tick", every="1s")
        jobs = await eventually(lambda: _some(stage, 4))
    late = sorted(row["created_at"] - datetime.fromisoformat(row["slot"]) for row in jobs[1:])
    # A busy machine may be late now and then; by the beats alone it would be by a second on average.
    assert late[0] < timedelta(milliseconds=100)
    assert late[len(late) // 2] < timedelta(milliseconds=500)


async def _some(stage: Stage, n: int) -> Sequence[Any]:
    rows = await stage.store.connection.fetch(
        "SELECT created_at, meta ->> 'slot' AS slot FROM rowlock.jobs WHERE state = 'completed' ORDER BY id"
    )
    return rows if len(rows) >= n else ()


async def test_the_beat_does_not_hurry_for_what_nobody_can_fire(stage: Stage) -> None:
    await stage.due()
    worker = await stage.store.worker()
    said = beating(worker)
    row = await stage.store.one("beat", **said)
    assert row["schedule_in"] is None
    assert "schedules" in row["due"]
    await stage.app.schedules.create("soon", "tick", every="1h")
    assert 0 < (await stage.store.one("beat", **said))["schedule_in"] <= 3600
    await stage.app.schedules.pause("soon")
    assert (await stage.store.one("beat", **said))["schedule_in"] is None


async def test_killed_schedulers_lose_no_slot_and_repeat_none(stage: Stage) -> None:
    """Two processes fire every second of a schedule that owes them all; one after the other is killed."""
    await stage.app.schedules.create("s", "tick", every="1s", missed="all")
    started: list[asyncio.subprocess.Process] = []

    async def start() -> None:
        command = [sys.executable, "-m", "tests.upkeep.scheduler", stage.url]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=dict(os.environ))
        started.append(process)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"

    async def slots(n: int) -> list[str]:
        found = await stage.slots()
        return found if len(found) >= n else []

    try:
        await asyncio.gather(start(), start())
        await eventually(lambda: slots(2))
        started[0].send_signal(signal.SIGKILL)
        await start()
        await eventually(lambda: slots(4))
        started[1].send_signal(signal.SIGKILL)
        found = await eventually(lambda: slots(6))
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()
            await process.wait()
    moments = [datetime.fromisoformat(slot) for slot in found]
    assert moments == [moments[0] + timedelta(seconds=n) for n in range(len(moments))]


async def test_declared_schedules_are_written_at_the_start_of_a_worker(stage: Stage) -> None:
    app = stage.another()
    app.schedules.define("nightly", "tick", "0 2 * * *", tz="Europe/London", args={"n": 9})
    async with app.worker():
        made = await app.schedules.get("nightly")
    assert made.declared is not None
    assert (made.cron, made.args, made.version) == ("0 2 * * *", {"n": 9}, 1)
    async with app.worker():
        assert (await app.schedules.get("nightly")).version == 1


async def test_a_declaration_that_its_kind_refuses_keeps_the_worker_from_starting(stage: Stage) -> None:
    app = stage.another()
    app.schedules.define("nightly", "tick", "0 2 * * *", args={"m": 9})
    with pytest.raises(InvalidArguments, match="m"):
        async with app.worker():
            pass
    assert json.loads(await stage.store.value("SELECT to_jsonb(count(*)) FROM {s}.schedules")) == 0


async def test_what_is_due_is_read_through_its_index(stage: Stage) -> None:
    await stage.store.execute(
        "INSERT INTO {s}.schedules (name, kind, every, next_at)"
        " SELECT 's' || n, 'tick', '1 h', now() + n * interval '1 s' FROM generate_series(1, 5000) n"
    )
    await stage.store.execute("ANALYZE {s}.schedules")
    statement = stage.app.database().statements["schedules_due"]
    plan = await stage.store.connection.fetch(f"EXPLAIN {statement.dollar.replace('$1', 'ARRAY[]')}")
    assert "schedules_due" in "\n".join(row[0] for row in plan)


async def test_a_schedule_that_cannot_be_read_holds_up_no_other(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b", "c"):
        await stage.due(name)
    await stage.store.execute("UPDATE {s}.schedules SET windows = '[{\"hours\": 7}]' WHERE name = 'b'")
    assert await stage.round() == 2
    assert [len(await stage.slots(name)) for name in ("a", "b", "c")] == [1, 0, 1]
    assert "the schedule b cannot be fired" in caplog.text


async def test_five_hundred_schedules_of_one_moment(stage: Stage) -> None:
    await stage.due()
    await stage.store.execute(
        "INSERT INTO {s}.schedules (name, kind, every, next_at)"
        " SELECT 'many ' || n, s.kind, s.every, s.next_at FROM {s}.schedules s, generate_series(1, 499) n"
    )
    assert await in_time(stage.round()) == 500
    assert await stage.store.value("SELECT count(*) FROM {s}.job_keys") == 500
    assert await stage.round() == 0


async def test_rows_are_read_as_they_were_written(stage: Stage) -> None:
    made = await stage.app.schedules.create("s", "tick", every="90m", missed="all", overlap="skip", tz="Asia/Kolkata")
    (row,) = await stage.store.fetch("schedules", only="s", sees_all=True, tenant=None, subject="x", granted=None)
    assert schedule_of(row) == made
