"""The frame around pages: keys, palette, theme, login, read-only servers, and a server that restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.conftest import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def test_every_page_is_reached_by_keys(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/", "Overview")
    for keys, heading in (("gl", "Lanes"), ("gs", "Schedules"), ("gj", "Jobs"), ("gy", "System"), ("go", "Overview")):
        await window.page.keyboard.press(keys[0])
        await window.page.keyboard.press(keys[1])
        await window.sees(window.page.get_by_role("heading", level=1, name=heading))
    await window.page.keyboard.press("?")
    await window.sees(window.page.get_by_role("heading", name="Keyboard"))
    await window.is_accessible()
    await window.page.get_by_label("Single-key shortcuts").uncheck()
    await window.page.keyboard.press("Escape")
    await window.page.keyboard.press("?")
    assert await window.page.locator("dialog[open]").count() == 0


async def test_the_palette_leads_to_pages_and_jobs(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    job = await window.rest.submit("greet")
    await window.open("/lanes", "Lanes")
    await window.page.keyboard.press("Control+k")
    await window.page.keyboard.type("workf")
    await window.is_accessible()
    await window.page.keyboard.press("Enter")
    await window.sees(window.page.get_by_role("heading", level=1, name="Workflows"))
    await window.page.keyboard.press("Control+k")
    await window.page.keyboard.type(job["id"].lower())
    await window.page.keyboard.press("Enter")
    await window.page.wait_for_url(f"**/jobs/{job['id']}")


async def test_a_chosen_theme_outlives_a_reload(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/lanes", "Lanes")
    await window.page.get_by_role("button", name="Theme").click()
    await window.page.get_by_role("menuitemradio", name="Dark").click()
    await window.page.reload()
    await window.sees(window.page.get_by_role("heading", level=1, name="Lanes"))
    assert await window.page.evaluate("document.documentElement.dataset.theme") == "dark"


async def test_pause_really_pauses(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/", "Overview")
    await window.page.get_by_role("button", name="Live").click()
    await window.sees(window.page.get_by_role("button", name="Paused"))
    async with window.page.expect_request("**/stats/overview*", timeout=60_000):
        await window.page.get_by_role("button", name="Paused").click()
    await window.sees(window.page.get_by_role("button", name="Live"))


async def test_a_stranger_sees_the_login_page(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("stranger")
    await window.open("/lanes", "Log in to Rowlock")
    await window.is_accessible()
    await window.page.get_by_label("Token").fill("rlk_wrong")
    await window.button("Log in").click()
    await window.sees(window.page.get_by_label("Token").and_(window.page.locator("[aria-invalid=true]")))


async def test_a_read_only_server_says_so_and_offers_nothing(visit: Callable[..., Any]) -> None:
    window: Visit = await visit(read_only=True)
    await window.open("/lanes", "Lanes")
    await window.sees(window.text("This server is read-only"))
    assert await window.button("New lane").count() == 0
    await window.is_accessible()


async def test_the_page_reconnects_after_a_restart_of_the_server(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    with running(window.rest.api) as address:
        port = int(address.rsplit(":", 1)[1])
        await window.page.goto(f"{address}/")
        await window.sees(window.page.get_by_role("button", name="Live"))
    await window.sees(window.text("The server does not answer"))
    with running(window.rest.api, port=port):
        await window.sees(window.page.get_by_role("button", name="Live"))
        await window.misses(window.text("The server does not answer"))


async def test_a_page_that_stops_working_leaves_the_others(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.page.route("**/api/v1/admin/workers/lanes", lambda route: route.fulfill(json={"items": None}))
    await window.page.goto(f"{window.url}/lanes")
    alert = window.page.get_by_role("alert")
    await window.sees(alert.get_by_text("This page stopped working"))
    window.faults.clear()  # the mistake that the test made
    await window.is_accessible()
    await window.page.get_by_role("link", name="Schedules").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Schedules"))
    await window.misses(alert)


async def test_a_page_of_an_older_build_asks_for_a_reload(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/lanes", "Lanes")
    await window.page.route("**/assets/schedules-*.js", lambda route: route.fulfill(status=404))
    await window.page.get_by_role("link", name="Schedules").click()
    await window.sees(window.text("A newer version of the dashboard is installed"))
    await window.page.unroute("**/assets/schedules-*.js")
    await window.button("Reload").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Schedules"))


async def test_the_palette_finds_lanes_and_gives_orders(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.rest.store.lane("reports", kinds=["walk"])
    await window.open("/schedules", "Schedules")
    await window.page.keyboard.press("Control+k")
    await window.page.keyboard.type("pause rep")
    await window.sees(window.page.get_by_role("option", name="Pause lane reports"))
    await window.page.keyboard.press("Enter")
    await window.sees(window.page.get_by_role("heading", name="Pause lane reports?"))
    await window.is_accessible()
    await window.button("Pause").click()
    await window.sees(window.text("The lane starts no more jobs"))
    assert await window.rest.store.value("SELECT enabled FROM {s}.lanes WHERE name = 'reports'") is False
    await window.page.keyboard.press("Control+k")
    await window.page.keyboard.type("fai")
    await window.sees(window.page.get_by_role("option", name="Retry all failed jobs"))
    await window.page.keyboard.press("Control+a")
    await window.page.keyboard.type("reports")
    await window.sees(window.page.get_by_role("option", name="Resume lane reports"))
    await window.page.get_by_role("option", name="reports Lanes").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Lane reports"))


async def test_an_address_without_a_page_says_so(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/jibs", "There is no such page")
    await window.is_accessible()
    await window.page.locator("main").get_by_role("link", name="Overview").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Overview"))
