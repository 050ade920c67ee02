"""The page Failures: causes, one cause with its last error, retry of all its jobs, mute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually

from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def failed(window: Visit, count: int) -> None:
    for _ in range(count):
        await window.rest.submit("explode")

    async def all_failed() -> bool:
        return bool(await window.rest.store.value("SELECT count(*) = $1 FROM {s}.jobs WHERE state = 'failed'", count))

    await eventually(all_failed)


async def test_a_cause_is_opened_retried_and_muted(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/failures", "Failures")
    await window.sees(window.text("Nothing failed"))
    await window.is_accessible()
    await worker()
    await failed(window, 3)
    await window.open("/failures", "Failures")
    cause = window.page.get_by_role("link", name="ValueError: out of paper")
    await window.sees(cause)
    await window.is_accessible()
    await cause.click()
    await window.sees(window.page.get_by_role("heading", level=1, name="ValueError: out of paper"))
    await window.sees(window.page.locator("strong").get_by_text("explode", exact=True))
    await window.is_accessible()
    await window.button("Retry its failed jobs").click()
    await window.sees(window.text("3 jobs can take this order."))
    await window.button("Retry 3").click()
    await window.sees(window.text("3 done, 0 skipped"))
    await window.page.get_by_role("button", name="Close", exact=True).last.click()
    await window.button("Mute").click()
    await window.page.get_by_label("Note").fill("known, ticket 12")
    await window.page.get_by_role("dialog").get_by_role("button", name="Mute", exact=True).click()
    await window.sees(window.button("Unmute"))
    await window.sees(window.text("known, ticket 12"))
    await window.open("/failures", "Failures")
    await window.sees(window.text("Nothing failed"))
    await window.button("Muted").click()
    await window.sees(window.page.get_by_role("link", name="ValueError: out of paper"))


async def test_a_cause_leads_to_its_jobs_and_a_reader_gets_no_orders(
    visit: Callable[..., Any], worker: Callable[..., Any]
) -> None:
    window: Visit = await visit("reader", phone=True)
    reads = frozenset({Permission.READ, Permission.READ_ALL})
    window.rest.people.known["reader"] = Principal("reader", permissions=reads)
    await worker()
    await failed(window, 2)
    await window.open("/failures", "Failures")
    await window.fits()
    await window.page.get_by_role("link", name="ValueError: out of paper").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="ValueError: out of paper"))
    await window.fits()
    assert await window.button("Mute").count() == 0
    await window.page.get_by_role("link", name="Show its jobs").click()
    await window.sees(window.text("2 found"))


async def test_causes_that_read_alike_differ_by_where_they_were_raised(
    visit: Callable[..., Any], worker: Callable[..., Any]
) -> None:
    window: Visit = await visit()
    await worker()
    await failed(window, 1)
    await window.open("/failures", "Failures")
    await window.sees(window.page.get_by_text("conftest.py:explode").locator("visible=true"))
    await window.is_accessible()
