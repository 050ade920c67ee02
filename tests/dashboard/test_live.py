"""How pages hear of changes: one stream for all tabs, another tab when its holder closes, polling without a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.dashboard.conftest import IN_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.async_api import Page
    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


def streams_of(page: Page) -> list[str]:
    """The requests for the stream of changes that this tab sends, from now on."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url) if "/api/v1/events" in request.url else None)
    return found


async def cancel(window: Visit, job: dict[str, Any]) -> None:
    async with window.rest.client() as client:
        (await client.post(f"/jobs/{job['id']}/cancel", json={})).raise_for_status()


async def test_two_tabs_share_one_stream_and_the_second_takes_over(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    jobs = [await window.rest.submit(run_in="1h") for _ in range(2)]
    first = window.page
    of_first = streams_of(first)
    await window.open("/lanes", "Lanes")
    await window.sees(window.button("Live"))
    window.page = second = await first.context.new_page()
    second.set_default_timeout(IN_TIME)
    of_second = streams_of(second)
    await window.open(f"/jobs/{jobs[0]['id']}", "greet")
    await window.sees(window.button("Live"))
    await cancel(window, jobs[0])
    # Heard through the first tab: this one has no stream, and a page of a waiting job does not ask again by itself.
    await window.sees(second.locator("h1").get_by_text("cancelled"))
    assert (len(of_first), len(of_second)) == (1, 0)
    async with second.expect_request("**/api/v1/events*", timeout=IN_TIME):
        await first.close()
    await window.sees(window.button("Live"))
    await window.open(f"/jobs/{jobs[1]['id']}", "greet")
    await window.sees(window.button("Live"))
    await cancel(window, jobs[1])
    await window.sees(second.locator("h1").get_by_text("cancelled"))
    assert window.faults == []


async def test_without_a_stream_the_page_says_that_it_polls_and_still_changes(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    job = await window.rest.submit(run_in="1h")
    await window.page.route("**/api/v1/events*", lambda route: route.abort())
    await window.open(f"/jobs/{job['id']}", "greet")
    await window.sees(window.button("Polling"))
    await window.is_accessible()
    await cancel(window, job)
    await window.sees(window.page.locator("h1").get_by_text("cancelled"))
