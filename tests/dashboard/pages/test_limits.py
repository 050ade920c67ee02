"""Limits and locks: who holds a place, a limit that is raised, a rate that is paused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually, until_cancelled

from rowlock import Context, Gate, Rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def use_limits(window: Visit) -> None:
    app = window.rest.app

    @app.job(gate=lambda shop: Gate(f"shop:{shop}", limit=2), rate=Rate(10, per="1s").for_key("crm"))
    async def sync_shop(shop: int) -> int:
        return shop

    job = await sync_shop.enqueue(shop=7)
    async with app.worker():
        await job.wait(timeout=60)


async def test_without_limits_the_page_says_how_they_come(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/limits", "Limits and locks")
    await window.sees(window.text("No gate is in use"))
    await window.page.get_by_role("tab", name="Rates").click()
    await window.sees(window.text("No rate is in use"))
    await window.page.get_by_role("tab", name="Locks").click()
    await window.sees(window.text("No lock is held"))
    assert "tab=locks" in window.page.url
    await window.is_accessible()


async def test_a_gate_is_raised_and_shows_its_holders(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await use_limits(window)
    await window.open("/limits", "Limits and locks")
    await window.page.get_by_role("button", name="Orders for shop:7").click()
    await window.page.get_by_role("menuitem", name="Change the limit").click()
    await window.page.get_by_label("Jobs at once").fill("5")
    await window.button("Save").click()
    await window.sees(window.text("Gate shop:7 was changed"))
    assert (await window.rest.app.limits.gate("shop:7")).limit == 5
    await window.page.get_by_role("cell", name="shop:7", exact=True).click()
    await window.sees(window.text("Nobody holds a place."))
    await window.is_accessible()


async def test_a_rate_is_paused_resumed_and_changed(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await use_limits(window)
    await window.open("/limits?tab=rates", "Limits and locks")
    orders = window.page.get_by_role("button", name="Orders for crm")
    await orders.click()
    await window.page.get_by_role("menuitem", name="Pause").click()
    await window.page.get_by_label("For", exact=True).fill("2h")
    await window.button("Pause").click()
    await window.sees(window.text("paused until"))
    await window.is_accessible()
    await orders.click()
    await window.page.get_by_role("menuitem", name="Resume").click()
    await window.misses(window.text("paused until"))
    await orders.click()
    await window.page.get_by_role("menuitem", name="Change the rate").click()
    await window.page.get_by_label("Starts").fill("30")
    await window.button("Save").click()
    await window.sees(window.text("30 per 1 s"))


async def test_holders_and_those_that_wait_are_shown(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    app = window.rest.app

    @app.job(gate=Gate("printer", limit=2))
    async def print_label(ctx: Context) -> None:
        async with ctx.lock("printer", "tray"):
            await until_cancelled()

    first = await print_label.enqueue()
    async with app.worker():

        async def held() -> bool:
            return bool(await app.locks.list())

        await eventually(held)
        second, third = await print_label.enqueue(), await print_label.enqueue()
        await window.open("/limits?gate=printer", "Limits and locks")
        holders = window.page.get_by_role("region", name="printer")
        for job in (first, second):
            await window.sees(holders.get_by_role("link", name=str(job.public_id)))
        assert await holders.get_by_role("link", name=str(third.public_id)).count() == 0
        row = window.page.get_by_role("row").filter(has_text="printer")
        await window.sees(row.get_by_text("1", exact=True))  # parked
        await window.page.get_by_role("tab", name="Locks").click()
        lock = window.page.get_by_role("row").filter(has_text="tray")
        await window.sees(lock.get_by_role("link", name="print_label").nth(1))  # its holder, and the one that waits
        await window.is_accessible()
