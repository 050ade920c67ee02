"""Everything without a pointer: from the overview to a failed job, its retry, and an order for many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def press(window: Visit, *keys: str) -> None:
    for key in keys:
        await window.page.keyboard.press(key)


async def tab_to(window: Visit, name: str) -> None:
    """Tab until the control of this name has the focus."""
    for _ in range(40):
        focused = await window.page.evaluate("document.activeElement?.textContent?.trim() ?? ''")
        if focused == name:
            return
        await window.page.keyboard.press("Tab")
    raise AssertionError(f"Tab never reaches {name}")


async def test_failed_jobs_are_found_understood_and_retried_with_keys_alone(
    visit: Callable[..., Any], worker: Callable[..., Any]
) -> None:
    window: Visit = await visit()
    await worker()
    jobs = [await window.rest.submit("explode") for _ in range(3)]

    async def failed() -> bool:
        return bool(await window.rest.store.value("SELECT count(*) = 3 FROM {s}.jobs WHERE state = 'failed'"))

    await eventually(failed)
    await window.open("/", "Overview")
    await press(window, "g", "j")
    await window.sees(window.page.get_by_role("heading", level=1, name="Jobs"))
    await press(window, "/")
    await window.page.keyboard.type("state:failed ")
    await press(window, "Enter")
    await window.sees(window.text("3 found"))
    await press(window, "Escape", "j", "Enter")
    await window.sees(window.text("out of paper"))
    await tab_to(window, "Retry")
    await press(window, "Enter")
    await window.sees(window.page.get_by_role("dialog"))
    await tab_to(window, "Retry it")
    await press(window, "Enter")
    await window.misses(window.page.get_by_role("dialog"))
    await window.page.go_back()
    await window.sees(window.page.get_by_role("link", name=jobs[0]["id"]))
    await press(window, "j", "x", "j", "x", "r")
    # The order of a key is for all that are selected.
    await window.sees(window.text("2 jobs can take this order."))
    await tab_to(window, "Retry 2")
    await press(window, "Enter")
    await window.sees(window.text("2 done, 0 skipped"))


async def test_a_dialog_keeps_the_focus_and_gives_it_back(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/lanes", "Lanes")
    await tab_to(window, "New lane")
    await press(window, "Enter")
    await window.sees(window.page.get_by_role("dialog"))
    for _ in range(12):
        await press(window, "Tab")
        assert await window.page.evaluate(
            "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
    await press(window, "Escape")
    await window.misses(window.page.get_by_role("dialog"))
    assert await window.page.evaluate("document.activeElement.textContent.trim()") == "New lane"


async def test_the_first_tab_leads_past_the_navigation(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/lanes", "Lanes")
    await press(window, "Tab")
    assert await window.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    await press(window, "Enter")
    assert await window.page.evaluate("document.activeElement.tagName") == "MAIN"
