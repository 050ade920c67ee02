"""The schedules desk: declared and made at run time, changed, run, backfilled; who sees and may change them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr  # noqa: TC002 - a handler's annotation, read at run time

from rowlock import (
    ConfigurationError,
    InvalidArguments,
    InvalidOption,
    Principal,
    Rowlock,
    ScheduleNotFound,
    UnknownKind,
    Window,
    WrongState,
)
from rowlock.desk.doctor import Doctor
from rowlock.model.access import ALL, Permission

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.desk.conftest import Desk


def declare(app: Rowlock, **says: Any) -> Rowlock:  # noqa: ANN401 - app.schedule's
    @app.schedule("0 2 * * *", **{"tz": "Europe/London", "args": {"n": 1}, **says})
    @app.job
    async def report(n: int, day: str | None = None) -> str:
        return f"{n} {day}"

    @app.job
    async def login(user: str, password: SecretStr | None = None) -> None: ...

    return app


@pytest.fixture
def shop(make_app: Callable[..., Rowlock]) -> Rowlock:
    return declare(make_app())


# --- in code ----------------------------------------------------------------------------------------------------------


def test_the_decorator_returns_the_task_and_may_stand_there_twice(make_app: Callable[..., Rowlock]) -> None:
    app = make_app()

    @app.schedule(every="15m", name="often", overlap="skip")
    @app.schedule("0 2 * * MON-FRI", windows=[Window("03:00-06:00")])
    @app.job
    async def sync() -> int:
        return 1

    assert sync.kind == "sync"
    assert [(item.name, item.when) for item in app.schedules.defined] == [
        ("sync", "0 2 * * MON-FRI"),
        ("often", "every 15m"),
    ]


def test_wrong_declarations_are_told_where_they_stand(make_app: Callable[..., Rowlock]) -> None:
    app = make_app()
    with pytest.raises(ConfigurationError, match="stands above"):
        app.schedule("0 2 * * *")(lambda: None)  # type: ignore[type-var]  # a wrong call
    with pytest.raises(InvalidArguments, match="n"):
        declare(app, args={"m": 1})
    with pytest.raises(InvalidOption, match="cannot be read at character 3"):
        app.schedules.define("x", "report", "0 99 * * *")
    app.schedules.define("y", "report", "0 1 * * *")
    app.schedules.define("y", "report", "0 1 * * *")
    with pytest.raises(ConfigurationError, match="defined twice"):
        app.schedules.define("y", "report", "0 2 * * *")


async def test_what_an_operator_changed_stays_until_the_code_says_otherwise(make_app: Callable[..., Rowlock]) -> None:
    old = declare(make_app())
    await old.schedules.declare()
    await old.schedules.edit("report", cron="0 5 * * *", overlap="skip")
    await old.schedules.pause("report")
    # The same code again, and code that changed another field.
    assert await old.schedules.declare() == []
    newer = declare(make_app(), args={"n": 2})
    (written,) = await newer.schedules.declare()
    assert (written.cron, written.overlap, written.enabled, written.args) == ("0 5 * * *", "skip", False, {"n": 2})
    # Code that changed that very field.
    newest = declare(make_app(), args={"n": 2}, overlap="cancel")
    (written,) = await newest.schedules.declare()
    assert (written.cron, written.overlap) == ("0 5 * * *", "cancel")
    # Reset: all of it as the code says; whether it is paused is no word of the code's.
    reset = await newest.schedules.reset("report")
    assert (reset.cron, reset.overlap, reset.enabled) == ("0 2 * * *", "cancel", False)
    assert reset.next_at is not None


async def test_code_takes_over_a_schedule_that_was_made_by_hand(shop: Rowlock) -> None:
    await shop.schedules.create("report", "report", "0 9 * * *", args={"n": 7})
    with pytest.raises(WrongState, match="not declared in code"):
        await shop.schedules.reset("report")
    (written,) = await shop.schedules.declare()
    assert (written.cron, written.args) == ("0 2 * * *", {"n": 1})


async def test_two_workers_that_start_at_once_write_it_once(make_app: Callable[..., Rowlock]) -> None:
    apps = [declare(make_app()) for _ in range(4)]
    written = await asyncio.gather(*(app.schedules.declare() for app in apps))
    assert sum(map(len, written)) == 1
    assert (await apps[0].schedules.get("report")).version == 1


# --- at run time ------------------------------------------------------------------------------------------------------


async def test_made_changed_and_removed(shop: Rowlock) -> None:
    made = await shop.schedules.create("s", "report", every="15m", args={"n": 3}, options={"expires_in": "1h"})
    assert (made.when, made.options, made.version) == ("every 15m", {"expires_in": "1h"}, 1)
    with pytest.raises(WrongState, match="already"):
        await shop.schedules.create("s", "report", every="1h", args={"n": 3})
    changed = await shop.schedules.edit("s", cron="0 2 * * *", tz="America/New_York", version=1)
    assert (changed.cron, changed.every, changed.version) == ("0 2 * * *", None, 2)
    assert changed.next_at != made.next_at
    same = await shop.schedules.edit("s", args={"n": 4, "day": "mon"})
    assert same.next_at == changed.next_at
    with pytest.raises(WrongState, match="someone else changed it"):
        await shop.schedules.edit("s", overlap="skip", version=1)
    assert [item.name for item in await shop.schedules.list()] == ["s"]
    assert (await shop.schedules.delete("s")).name == "s"
    with pytest.raises(ScheduleNotFound):
        await shop.schedules.get("s")


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        ({"kind": "reprot"}, UnknownKind, "report"),
        ({"args": {"n": "x"}}, InvalidArguments, "n"),
        ({"kind": "login", "args": {"user": "a", "password": "geheim"}}, InvalidArguments, "cannot keep a secret"),
        ({"cron": "0 2 * *"}, InvalidOption, "five fields"),
        ({"every": "1h"}, InvalidOption, "both"),
        ({"tz": "Europe/Lundon"}, InvalidOption, "Did you mean 'Europe/London'"),
    ],
)
async def test_what_cannot_be_is_refused(
    shop: Rowlock, says: dict[str, Any], error: type[Exception], message: str
) -> None:
    values = {"kind": "report", "cron": "0 2 * * *", "args": {"n": 1}, **says}
    with pytest.raises(error, match=message):
        await shop.schedules.create("s", values.pop("kind"), values.pop("cron"), **values)
    assert await shop.schedules.list() == []


async def test_near_names_are_offered(shop: Rowlock) -> None:
    await shop.schedules.declare()
    with pytest.raises(ScheduleNotFound, match="Did you mean 'report'"):
        await shop.schedules.pause("repotr")


async def test_run_now_leaves_the_slots_alone(shop: Rowlock) -> None:
    made = await shop.schedules.create("s", "report", every="1h", args={"n": 3})
    job = await shop.schedules.run("s")
    assert (job.kind, job.args, job.meta) == ("report", {"n": 3}, {"schedule": "s"})
    after = await shop.schedules.get("s")
    assert (after.next_at, after.last_at, after.last_job) == (made.next_at, None, job.id)


async def test_a_backfill_is_told_first_and_repeats_nothing(shop: Rowlock) -> None:
    await shop.schedules.create("s", "report", every="1h", args={"n": 3})
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    start = end - timedelta(hours=5)
    told = await shop.schedules.backfill("s", start, end)
    assert (len(told.slots), told.already, told.jobs, told.dry_run) == (5, (), (), True)
    assert (await shop.jobs.search("ref.schedule:s")).items == []
    part = await shop.schedules.backfill("s", start, start + timedelta(hours=2), dry_run=False)
    assert len(part.jobs) == 2
    rest = await shop.schedules.backfill("s", start, end, dry_run=False)
    assert (len(rest.jobs), len(rest.already)) == (3, 2)
    slots = sorted(str(job.meta["slot"]) for job in (await shop.jobs.search("ref.schedule:s")).items)
    assert slots == [f"{start + timedelta(hours=n):%Y-%m-%dT%H:%M:%SZ}" for n in range(5)]
    again = await shop.schedules.backfill("s", start, end, dry_run=False)
    assert (again.slots, again.jobs, len(again.already)) == ((), (), 5)


async def test_a_backfill_is_bounded_and_of_the_past(shop: Rowlock) -> None:
    await shop.schedules.create("s", "report", every="1m", args={"n": 3})
    now = datetime.now(UTC)
    for start, end, message in (
        (now - timedelta(days=2), now, "More than 1,000 slots"),
        (now, now + timedelta(days=1), "that has passed"),
        (now, now - timedelta(days=1), "that has passed"),
        (now.replace(tzinfo=None), now, "time zone"),
    ):
        with pytest.raises(InvalidOption, match=message):
            await shop.schedules.backfill("s", start, end)


async def test_the_next_runs(shop: Rowlock) -> None:
    await shop.schedules.create("s", "report", every="1h", args={"n": 3}, enabled=False)
    runs = await shop.schedules.next("s")
    assert len(runs) == 5
    assert runs[1] - runs[0] == timedelta(hours=1)


async def test_changes_leave_lines_in_the_audit(shop: Rowlock) -> None:
    ada = shop.desk(Principal("ada", permissions=ALL))
    await ada.schedules.create("s", "report", every="1h", args={"n": 3})
    await ada.schedules.edit("s", overlap="skip")
    await ada.schedules.pause("s")
    await ada.schedules.run("s")
    end = datetime.now(UTC)
    await ada.schedules.backfill("s", end - timedelta(hours=3), end, dry_run=False)
    await ada.schedules.delete("s")
    lines = (await shop.audit.list(target="schedule:s"))[::-1]
    assert [line.action.removeprefix("schedule.") for line in lines] == [
        *("create", "edit", "edit", "run", "backfill", "delete"),
    ]
    assert {line.subject for line in lines} == {"ada"}
    assert (lines[1].before, lines[1].after) == ({"overlap": "queue"}, {"overlap": "skip"})
    assert lines[2].after == {"enabled": False}


# --- whose ------------------------------------------------------------------------------------------------------------

TEAM = ALL - {Permission.READ_ALL, Permission.SUBMIT_AS}


async def test_another_tenants_schedule_does_not_exist(shop: Rowlock) -> None:
    north = shop.desk(Principal("ada", tenant="north", permissions=TEAM))
    south = shop.desk(Principal("bob", tenant="south", permissions=TEAM))
    made = await north.schedules.create("s", "report", every="1h", args={"n": 3})
    assert (made.tenant, made.submitted_by) == ("north", "ada")
    job = await north.schedules.run("s")
    assert (job.tenant, job.submitted_by) == ("north", "ada")
    assert await south.schedules.list() == []
    for order in (south.schedules.get, south.schedules.pause, south.schedules.run, south.schedules.delete):
        with pytest.raises(ScheduleNotFound):
            await order("s")
    assert [item.name for item in await shop.schedules.list()] == ["s"]


async def test_a_name_that_another_tenant_has_is_taken_and_no_more_is_told(shop: Rowlock) -> None:
    north = shop.desk(Principal("ada", tenant="north", permissions=TEAM))
    south = shop.desk(Principal("bob", tenant="south", permissions=TEAM))
    await north.schedules.create("s", "report", every="1h", args={"n": 3})
    with pytest.raises(WrongState) as own:
        await north.schedules.create("s", "report", every="2h", args={"n": 3})
    assert "There is a schedule 's' already. Change it instead" in str(own.value)
    with pytest.raises(WrongState) as other:
        await south.schedules.create("s", "report", every="2h", args={"n": 3})
    assert str(other.value).startswith("The name 's' is taken. Take another one")
        str(other.value) == "The name 's' is taken. Take another one, such as one that begins with your tenant's name."
    )


async def test_the_doctor_tells_of_schedules_nobody_can_run(desk: Desk, shop: Rowlock) -> None:
    await shop.schedules.declare()
    await shop.schedules.create("lost", "report", every="1h", args={"n": 3})
    await desk.lane()
    await desk.worker(kinds=("other",))
    found = [item for item in await Doctor(shop.database(), shop.settings).examine() if item.check == "schedules"]
    assert [item.verdict for item in found] == ["warn"]
    assert "lost (report), report (report)" in found[0].says
    await desk.worker("knows", kinds=("report",))
    await desk.store.execute("UPDATE {s}.schedules SET declared_at = now() - interval '1 day' WHERE name = 'report'")
    await desk.store.execute("UPDATE {s}.schedules SET next_at = now() - interval '1 h' WHERE name = 'lost'")
    found = [item for item in await Doctor(shop.database(), shop.settings).examine() if item.check == "schedules"]
    assert ["lost was due 1h ago" in found[0].says, "code declared report once" in found[1].says] == [True, True]
