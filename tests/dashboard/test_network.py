"""A slow line, and one that breaks: an order is given once, and what was written is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def slow_down(window: Visit, *, milliseconds: int, kilobytes: int) -> None:
    """As a poor mobile line: so long until an answer begins, so much in a second."""
    session = await window.page.context.new_cdp_session(window.page)
    await session.send("Network.enable")
    speed = kilobytes * 1000
    conditions = {"offline": False, "latency": milliseconds, "downloadThroughput": speed, "uploadThroughput": speed}
    await session.send("Network.emulateNetworkConditions", conditions)


async def test_an_order_on_a_slow_line_is_given_once(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    job = await window.rest.submit(run_in="1h")
    await window.open(f"/jobs/{job['id']}", "greet")
    await slow_down(window, milliseconds=1500, kilobytes=50)
    sent: list[str] = []
    window.page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    await window.button("Cancel").click()
    await window.button("Cancel the job").click()
    # Pressed again while the first is on its way.
    await window.page.keyboard.press("Enter")
    await window.sees(window.page.locator("h1").get_by_text("cancelled"))
    assert len(sent) == 1, sent


async def test_an_order_that_finds_no_server_says_so_and_keeps_what_was_written(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    job = await window.rest.submit(run_in="1h")
    await window.open(f"/jobs/{job['id']}", "greet")
    await window.button("Cancel").click()
    await window.page.get_by_label("Note").fill("wrong batch")
    await window.page.context.set_offline(True)
    await window.button("Cancel the job").click()
    await window.sees(window.page.get_by_role("dialog").get_by_role("alert"))
    assert await window.page.get_by_label("Note").input_value() == "wrong batch"
    await window.page.context.set_offline(False)
    await window.button("Cancel the job").click()
    await window.sees(window.page.locator("h1").get_by_text("cancelled"))


async def test_a_page_on_a_slow_line_shows_that_it_loads(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.rest.app.schedules.create("nightly", "greet", every="1h", args={"name": "Ada"})
    await window.open("/lanes", "Lanes")
    await slow_down(window, milliseconds=2500, kilobytes=50)
    await window.page.get_by_role("link", name="Schedules").click()
    loading = window.page.locator("main").get_by_role("status").filter(has_text="Loading")
    await window.sees(loading)
    await window.sees(window.page.get_by_role("link", name="nightly"))
    await window.misses(loading)
    await window.is_accessible()
