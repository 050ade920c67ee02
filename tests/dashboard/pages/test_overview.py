"""The overview: figures that link to what they count, and what needs attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually

from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def test_the_overview_says_what_waits_and_where_to_look(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.rest.submit("pay", args={"amount": 7})
    await window.open("/", "Overview")
    await window.sees(window.text("1 awaiting approval"))
    await window.sees(window.text("None: nothing runs"))
    await window.is_accessible()
    await window.page.get_by_role("link", name="1 awaiting approval").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Approvals"))


async def test_figures_follow_the_feed_without_a_reload(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/", "Overview")
    await window.sees(window.page.get_by_role("button", name="Live"))
    await worker()
    await window.sees(window.page.get_by_role("link", name="Workers 1 up"))
    await window.rest.submit("pay", args={"amount": 7})
    await window.sees(window.page.get_by_role("navigation", name="Pages").get_by_text("1", exact=True))


async def test_charts_are_there_as_tables_too(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit()
    app = await worker()
    job = await window.rest.submit("greet")

    async def ended() -> bool:
        return bool((await app.jobs.get(job["id"])).state == "completed")

    await eventually(ended)
    await window.open("/?window=24h", "Overview")
    await window.sees(window.page.locator("canvas"))
    await window.page.get_by_role("button", name="As a table").first.click()
    await window.sees(window.page.get_by_role("columnheader", name="completed", exact=True))
    await window.is_accessible()


async def test_a_person_without_operators_pages_begins_with_jobs(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("ada")
    window.rest.people.known["ada"] = Principal("ada", permissions=frozenset({Permission.READ}))
    await window.open("/", "Jobs")
    assert await window.page.get_by_role("link", name="Lanes").count() == 0
    await window.page.goto(f"{window.url}/lanes")
    await window.sees(window.text("workers:view"))


async def test_a_deploy_is_unsafe_while_a_job_runs_that_must_not_run_twice(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    job = await window.rest.submit("pay", args={"amount": 7})
    await window.open("/", "Overview")
    await window.sees(window.page.get_by_role("link", name="Safe to deploy Yes"))
    await window.rest.store.execute(
        "UPDATE {s}.jobs SET state = 'running', claimed_at = now(), claimed_by = 1, attempt = 1, fence = fence + 1"
    )
    await window.page.reload()
    unsafe = window.page.get_by_role("link", name="Safe to deploy No")
    await window.sees(unsafe)
    await unsafe.click()
    await window.sees(window.page.get_by_role("link", name=job["id"]))


async def test_lanes_are_bars_that_lead_to_the_lane(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await worker()
    await window.open("/", "Overview")
    await window.sees(window.page.get_by_role("meter", name="front"))
    await window.page.get_by_role("main").get_by_role("link", name="front").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Lane front"))


async def test_a_deploy_is_marked_on_the_charts(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.rest.store.execute(
        "INSERT INTO {s}.deploys (version, first_seen) VALUES ('2.0', now() - interval '10 min')"
    )
    await window.open("/", "Overview")
    await window.sees(window.page.locator("canvas"))
    await window.page.get_by_role("button", name="As a table").first.click()
    await window.sees(window.page.get_by_role("rowheader").filter(has_text="2.0"))
