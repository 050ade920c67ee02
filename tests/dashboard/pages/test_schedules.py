"""Schedules: created, in words, run now, paused, backfilled after a preview, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def create_schedule(window: Visit) -> None:
    body = {"name": "greeting", "kind": "greet", "args": {"name": "Ada"}, "cron": "30 6 * * MON-FRI"}
    async with window.rest.client() as client:
        answer = await client.post("/schedules", json=body)
    assert answer.status_code == 201, answer.text


async def schedule(window: Visit) -> dict[str, Any]:
    async with window.rest.client() as client:
        return dict((await client.get("/schedules/greeting")).json())


async def jobs(window: Visit) -> int:
    async with window.rest.client() as client:
        return int((await client.get("/jobs", params={"q": "ref.schedule:greeting"})).json()["count"]["value"])


async def test_a_schedule_is_created_from_the_page(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/schedules", "Schedules")
    await window.sees(window.text("There is no schedule"))
    await window.is_accessible()
    await window.button("New schedule").click()
    await window.page.get_by_label("Name", exact=True).fill("greeting")
    await window.page.get_by_label("Kind").fill("greet")
    await window.page.get_by_label("Cron rule").fill("30 6 * * MON-FRI")
    await window.sees(window.text("at 06:30 on workdays"))
    await window.page.get_by_label("Arguments as JSON").fill('{"name":')
    await window.sees(window.text("This is not a JSON object."))
    await window.page.get_by_label("Arguments as JSON").fill('{"name": "Ada"}')
    await window.is_accessible()
    await window.button("New schedule").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Schedule greeting"))
    assert (await schedule(window))["cron"] == "30 6 * * MON-FRI"


async def test_a_schedule_takes_every_order(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await create_schedule(window)
    await window.open("/schedules/greeting", "Schedule greeting")
    await window.sees(window.text("Next runs"))
    await window.is_accessible()

    await window.button("Run now").click()
    await window.button("Run now").click()
    await window.sees(window.text("was enqueued"))
    assert await jobs(window) == 1

    await window.button("Pause").click()
    await window.button("Pause").click()
    await window.sees(window.page.locator("h1").get_by_text("paused"))
    assert (await schedule(window))["enabled"] is False
    await window.button("Resume").click()
    await window.button("Resume").click()
    await window.misses(window.page.locator("h1").get_by_text("paused"))

    await window.button("Edit").click()
    await window.page.get_by_label("Time zone").fill("Europe/London")
    await window.button("Save").click()
    await window.sees(window.text("Schedule greeting was changed"))
    assert (await schedule(window))["tz"] == "Europe/London"

    await window.button("Delete").click()
    await window.button("Delete").click()
    await window.sees(window.text("There is no schedule"))


async def test_a_backfill_is_previewed_before_it_enqueues(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await create_schedule(window)
    await window.open("/schedules/greeting", "Schedule greeting")
    await window.button("Backfill").click()
    await window.page.get_by_label("From").fill("2026-11-02T00:00")
    await window.page.get_by_label("To", exact=True).fill("2026-11-05T00:00")
    await window.button("Preview").click()
    await window.sees(window.text("3 run times would get a job"))
    assert await jobs(window) == 0
    await window.is_accessible()
    await window.button("Enqueue 3 jobs").click()
    await window.sees(window.text("3 jobs were enqueued"))
    assert await jobs(window) == 3


async def test_a_reader_of_schedules_gets_no_orders(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("ada", phone=True)
    allowed = frozenset({Permission.READ, Permission.READ_ALL, Permission.SCHEDULES_VIEW})
    window.rest.people.known["ada"] = Principal("ada", permissions=allowed)
    await create_schedule(window)
    await window.open("/schedules", "Schedules")
    await window.page.get_by_role("link", name="greeting").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Schedule greeting"))
    assert await window.button("Run now").count() == 0
    await window.fits()
    await window.is_accessible()


async def test_the_last_runs_are_a_strip_of_their_states(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await create_schedule(window)
    async with window.rest.client() as client:
        assert (await client.post("/schedules/greeting/run")).status_code in (200, 201, 202)
    await window.open("/schedules", "Schedules")
    await window.sees(window.page.get_by_role("img", name="queued"))
    await window.is_accessible()
