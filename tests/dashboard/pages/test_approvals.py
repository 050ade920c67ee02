"""The page Approvals: the diff to the last run, decisions one by one and in bulk, four eyes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually

from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def states(window: Visit) -> list[str]:
    found: list[str] = await window.rest.store.value("SELECT array_agg(state ORDER BY id) FROM {s}.jobs")
    return found


async def test_a_decision_is_made_beside_the_last_run(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit("boss")
    await window.open("/approvals", "Approvals")
    await window.sees(window.text("Nothing awaits approval"))
    await window.is_accessible()
    await worker()
    await window.rest.submit("pay", args={"amount": 5})
    await window.sees(window.page.get_by_role("cell", name="pay"))
    await window.sees(window.text("No job of this kind has completed yet"))
    await window.button("Approve").click()
    await window.button("Approve it").click()
    await window.sees(window.text("Nothing awaits approval"))

    async def done() -> bool:
        return await states(window) == ["completed"]

    await eventually(done)
    await window.rest.submit("pay", args={"amount": 500})
    await window.open("/approvals", "Approvals")
    change = window.page.get_by_role("row", name="amount changed 5 500")
    await window.sees(change)
    await window.is_accessible()
    await window.button("Reject").click()
    await window.page.get_by_label("Note").fill("too much")
    await window.button("Reject it").click()
    await window.sees(window.text("Nothing awaits approval"))
    assert await states(window) == ["completed", "cancelled"]


async def test_many_are_approved_at_once(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("boss")
    for amount in (1, 2, 3):
        await window.rest.submit("pay", args={"amount": amount})
    await window.open("/approvals", "Approvals")
    boxes = window.page.get_by_role("checkbox")
    await window.sees(boxes.nth(2))
    await boxes.nth(0).check()
    await boxes.nth(2).check()
    await window.page.get_by_text("2 selected").locator("..").get_by_role("button", name="Approve").click()
    await window.button("Approve 2").click()
    await window.sees(window.text("2 done, 0 skipped"))
    await window.page.get_by_role("button", name="Close", exact=True).last.click()
    assert await states(window) == ["queued", "pending", "queued"]


async def test_four_eyes_and_a_missing_permission_are_explained(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.rest.submit("pay", args={"amount": 5})
    await window.open("/approvals", "Approvals")
    await window.sees(window.text("You submitted this job"))
    assert await window.button("Approve").is_disabled()
    reader: Visit = await visit("reader")
    reads = frozenset({Permission.READ, Permission.READ_ALL})
    reader.rest.people.known["reader"] = Principal("reader", permissions=reads)
    await reader.open("/approvals", "Approvals")
    await reader.sees(reader.text("It needs the permission jobs:approve"))
    assert await reader.button("Approve").count() == 0


async def test_the_page_fits_a_phone(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("boss", phone=True)
    await window.rest.submit("pay", args={"amount": 5})
    await window.open("/approvals", "Approvals")
    await window.sees(window.button("Approve"))
    await window.fits()
    await window.is_accessible()
