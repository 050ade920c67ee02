"""Schedules in tests of applications: time that passes fires them, exactly as their rules say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from rowlock import Rowlock, Settings, Window
from rowlock.testing import Kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowlock.testing import Databases

LONDON = ZoneInfo("Europe/London")


@pytest.fixture
def app() -> Rowlock:
    app = Rowlock(settings=Settings(database_url="postgresql://nobody@localhost:1/nowhere"))

    @app.schedule("0 2 * * *", tz="Europe/London")
    @app.job
    async def report() -> None: ...

    return app


@pytest.fixture
def kit(app: Rowlock, databases: Databases) -> Iterator[Kit]:
    with Kit(app, databases) as kit:
        yield kit


def slots(kit: Kit, kind: str = "report") -> list[datetime]:
    return [datetime.fromisoformat(str(job.meta["slot"])) for job in kit.enqueued(kind)]


async def test_a_day_passes(kit: Kit) -> None:
    await kit.travel("1 day")
    assert (await kit.drain()).kinds == {"report": 1}
    (slot,) = slots(kit)
    assert slot.astimezone(LONDON).hour == 2
    await kit.travel("1 minute")
    assert not await kit.drain()


async def test_a_journey_is_an_outage_and_run_for_is_none(kit: Kit, app: Rowlock) -> None:
    await kit.travel("5 days")
    assert (await kit.drain()).kinds == {"report": 1}  # missed="latest"
    assert (await app.schedules.get("report")).skipped_why == "missed"
    assert (await kit.run_for("5 days")).kinds == {"report": 5}


async def test_travelling_to_the_next_run(kit: Kit) -> None:
    wait = await kit.travel_to_next()
    assert wait is not None
    assert await kit.drain()
    assert kit.now.astimezone(LONDON).hour == 2


async def test_schedules_made_on_the_way_know_the_day(kit: Kit, app: Rowlock) -> None:
    await kit.travel_to(datetime(2027, 3, 27, 12, tzinfo=UTC))
    made = await app.schedules.create("sunday", "report", "30 1 * * *", tz="Europe/London")
    # In the hour that the clocks leave out.
    assert made.next_at == datetime(2027, 3, 28, 1, tzinfo=UTC)
    assert (await app.schedules.next("sunday", 2))[1] == datetime(2027, 3, 29, 0, 30, tzinfo=UTC)
    done = await app.schedules.backfill("sunday", datetime(2027, 3, 26, tzinfo=UTC), datetime(2027, 3, 27, tzinfo=UTC))
    assert done.slots == (datetime(2027, 3, 26, 1, 30, tzinfo=UTC),)


async def test_a_year_over_both_changes_of_clocks(kit: Kit, app: Rowlock) -> None:
    """Every rule side by side, each month an outage: what each fired in a year, slot by slot."""
    start, end = datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
    zones = {"london": "Europe/London", "new york": "America/New_York", "lord howe": "Australia/Lord_Howe"}
    await kit.travel_to(start - timedelta(seconds=30))
    await app.schedules.pause("report")
    for name, tz in zones.items():
        await app.schedules.create(name, "report", "15 2 * * *", tz=tz, missed="all")
    await app.schedules.create("hours", "report", "0 */8 * * *", tz="Europe/London", missed="all")
    await app.schedules.create("latest", "report", "30 1 * * *", tz="Europe/London")
    await app.schedules.create("none", "report", "30 1 * * *", tz="Europe/London", missed="none")
    await app.schedules.create("twelve hours", "report", every="12h", missed="all")
    closed = Window("00:00-06:00", days="sun", then="defer")
    await app.schedules.create("closed", "report", "30 1 * * *", tz="Europe/London", missed="all", windows=[closed])
    months = [datetime(2027, month, 1, tzinfo=UTC) for month in range(2, 13)] + [end]
    for month in months:
        await kit.travel_to(month - timedelta(seconds=5))
    fired: dict[str, list[datetime]] = {}
    for job in kit.enqueued("report"):
        fired.setdefault(str(job.meta["schedule"]), []).append(datetime.fromisoformat(str(job.meta["slot"])))
    for item in await app.schedules.list():
        if item.missed == "all":
            expected = list(item.rule.between(start, end, 10_000))
            assert fired[item.name] == expected, item.name
    for name, tz in zones.items():
        assert len({slot.astimezone(ZoneInfo(tz)).date() for slot in fired[name]}) == len(fired[name]) == 365
    assert len(fired["hours"]) == 3 * 365
    assert {later - before for before, later in pairwise(fired["twelve hours"])} == {timedelta(hours=12)}
    assert len(fired["latest"]) == 12
    assert "none" not in fired
    sundays = [slot.astimezone(LONDON) for slot in fired["closed"] if slot.astimezone(LONDON).weekday() == 6]
    assert {f"{slot:%H:%M}" for slot in sundays} == {"06:00"}
    assert len(fired["closed"]) == 365
