"""The incident view: one stretch of time in the address, with what had changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def test_an_incident_shows_what_changed_and_is_kept_in_the_address(
    visit: Callable[..., Any], worker: Callable[..., Any]
) -> None:
    window: Visit = await visit()
    app = await worker()
    await app.lanes.set("front", slots=7)
    await window.open("/incident", "Incident")
    await window.sees(window.page.get_by_role("link", name="lane:front"))
    await window.sees(window.page.locator("canvas"))
    await window.is_accessible()
    await window.button("Earlier").click()
    await window.page.wait_for_url("**from=**")
    await window.sees(window.text("Nobody changed anything"))
    shared = window.page.url
    other: Visit = await visit("boss", phone=True)
    await other.page.goto(shared)
    await other.sees(other.text("Nobody changed anything"))
    await other.fits()
    await other.is_accessible()
