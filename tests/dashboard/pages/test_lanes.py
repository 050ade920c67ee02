"""Lanes: their load, their settings, an edit that meets another person's, and pausing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import until_cancelled

from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def lane(window: Visit, name: str = "front") -> dict[str, Any]:
    async with window.rest.client() as client:
        return dict((await client.get(f"/admin/workers/lanes/{name}")).json())


async def create_lane(window: Visit, name: str = "front", **more: Any) -> None:  # noqa: ANN401 - JSON
    async with window.rest.client() as client:
        answer = await client.post("/admin/workers/lanes", json={"name": name, "kinds": ["walk"], "slots": 2, **more})
    assert answer.status_code == 201, answer.text


async def test_a_lane_is_created_edited_and_paused(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/lanes", "Lanes")
    await window.button("New lane").click()
    await window.page.get_by_label("Name", exact=True).fill("front")
    await window.page.get_by_label("Kinds").fill("walk, greet")
    await window.button("New lane").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Lane front"))
    await window.is_accessible()

    await window.button("Edit").click()
    await window.page.get_by_label("Slots per worker process").fill("many")
    await window.button("Save").click()
    await window.sees(window.text("A whole number is expected here."))
    await window.page.get_by_label("Slots per worker process").fill("9")
    await window.page.get_by_label("Poll interval").fill("soon")
    await window.button("Save").click()
    await window.sees(window.page.get_by_role("alert"))
    await window.is_accessible()
    await window.page.get_by_label("Poll interval").fill("7s")
    await window.button("Save").click()
    await window.sees(window.text("Lane front was changed"))
    changed = await lane(window)
    assert (changed["slots"], changed["poll_interval"], changed["kinds"]) == (9, 7.0, ["walk", "greet"])

    await window.button("Pause").click()
    await window.button("Pause").click()
    await window.sees(window.page.locator("h1").get_by_text("paused"))
    assert (await lane(window))["enabled"] is False
    await window.button("Resume").click()
    await window.button("Resume").click()
    await window.misses(window.page.locator("h1").get_by_text("paused"))
    assert (await lane(window))["enabled"] is True


async def test_an_edit_that_meets_another_shows_both_side_by_side(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await create_lane(window)
    await window.open("/lanes/front", "Lane front")
    await window.button("Edit").click()
    await window.page.get_by_label("Slots per worker process").fill("5")
    async with window.rest.client("boss") as boss:
        await boss.patch("/admin/workers/lanes/front", json={"slots": 3, "max_total": 11}, headers={"If-Match": "*"})
    await window.button("Save").click()
    await window.sees(window.page.get_by_role("heading", name="Someone else changed it in the meantime"))
    row = window.page.get_by_role("row", name="Slots per worker process 5 3")
    await window.sees(row)
    await window.is_accessible()
    await window.button("Keep mine").click()
    await window.sees(window.text("Lane front was changed"))
    merged = await lane(window)
    assert (merged["slots"], merged["max_total"]) == (5, 11)


async def test_a_list_is_walked_with_keys_alone(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await create_lane(window, "aaa", kinds=["greet"])
    await create_lane(window)
    await window.open("/lanes", "Lanes")
    await window.sees(window.page.get_by_role("row", name="front"))
    names = await window.page.locator("tbody tr").evaluate_all("rows => rows.map(row => row.dataset.key)")
    for _ in range(names.index("front") + 1):
        await window.page.keyboard.press("j")
    await window.page.keyboard.press("Enter")
    await window.sees(window.page.get_by_role("heading", level=1, name="Lane front"))


async def test_a_reader_sees_lanes_and_no_orders(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("ada", phone=True)
    window.rest.people.known["ada"] = Principal(
        "ada", permissions=frozenset({Permission.READ, Permission.WORKERS_VIEW})
    )
    await create_lane(window)
    await window.open("/lanes/front", "Lane front")
    await window.sees(window.text("Slots per worker process"))
    assert await window.button("Edit").count() == 0
    assert await window.button("Pause").count() == 0
    await window.fits()
    await window.is_accessible()


async def test_slots_by_worker_and_the_history_of_edits(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await create_lane(window)
    async with window.rest.client("boss") as boss:
        await boss.patch("/admin/workers/lanes/front", json={"slots": 4}, headers={"If-Match": "*"})
    await worker()
    await window.open("/lanes/front", "Lane front")
    await window.sees(window.page.get_by_role("meter", name="Slots of lane front: 0 of 4 in use"))
    await window.sees(window.page.get_by_role("region", name="Slots by worker").get_by_role("link", name="here"))
    history = window.page.get_by_role("region", name="History of edits")
    await window.sees(history.get_by_text("by boss"))
    await history.get_by_text("change").first.click()
    await window.sees(history.locator("ins").get_by_text("4", exact=True))
    await window.is_accessible()


async def test_a_lane_tells_one_load(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    app = window.rest.app

    @app.job(lane="front")
    async def stand() -> None:
        await until_cancelled()

    await create_lane(window, kinds=["stand"])
    async with app.worker(name="here"):
        await window.open("/lanes/front", "Lane front")
        load = window.page.get_by_role("region", name="Load")
        await window.sees(load.get_by_text("0 / 2"))
        await window.sees(window.page.locator("h1").get_by_text("idle"))
        await stand.enqueue()
        await window.sees(window.page.get_by_role("table", name="Running jobs"))
        # What is above comes from the same answer as the row.
        assert await load.get_by_text("1 / 2").count() == 1
        assert await window.page.locator("h1").get_by_text("running").count() == 1
        assert await window.page.get_by_role("meter", name="Slots of lane front: 1 of 2 in use").count() == 1
