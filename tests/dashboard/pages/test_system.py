"""System: the doctor, the database, tokens that are shown once, the audit and one's own permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def test_health_and_database_are_shown(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/system", "System")
    await window.sees(window.page.get_by_role("heading", name="Upkeep"))
    await window.sees(window.text("checks that are well"))
    await window.is_accessible()
    await window.page.get_by_role("tab", name="Database").click()
    await window.sees(window.page.get_by_role("cell", name="job_attempts").first)
    await window.is_accessible()


async def test_a_token_is_created_shown_once_rotated_and_revoked(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/system?tab=tokens", "System")
    await window.sees(window.text("There is no token"))
    await window.button("New token").click()
    await window.page.get_by_label("Name", exact=True).fill("ci")
    await window.page.get_by_label("Roles").fill("nobody")
    await window.button("New token").click()
    await window.sees(window.page.get_by_role("alert"))
    await window.page.get_by_label("Roles").fill("operator")
    await window.button("New token").click()
    secret = window.page.locator("dialog[open] code")
    await window.sees(secret)
    assert (await secret.inner_text()).startswith("rlk_")
    await window.is_accessible()
    await window.page.locator("dialog[open] footer").get_by_role("button", name="Close").click()
    await window.sees(window.page.get_by_role("cell", name="ci", exact=True))
    assert await window.text("rlk_").count() == 0
    await window.page.get_by_role("button", name="Orders for token ci").click()
    await window.page.get_by_role("menuitem", name="Revoke").click()
    await window.button("Revoke").click()
    await window.sees(window.text("Token ci is revoked"))


async def test_the_audit_is_filtered_in_the_address_and_its_seals_checked(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    async with window.rest.client() as client:
        for name, kind in (("front", "walk"), ("back", "greet")):
            await client.post("/admin/workers/lanes", json={"name": name, "kinds": [kind]})
    await window.open("/system?tab=audit&target=lane:front", "System")
    await window.sees(window.text("lane:front"))
    assert await window.text("lane:back").count() == 0
    await window.is_accessible()
    await window.button("Check the seals").click()
    await window.sees(window.text("The chain of seals is whole"))


async def test_a_person_sees_own_permissions_and_what_is_missing(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("ada", phone=True)
    window.rest.people.known["ada"] = Principal("ada", permissions=frozenset({Permission.READ}))
    await window.open("/system", "System")
    await window.sees(window.page.locator("code").get_by_text("jobs:read", exact=True))
    await window.fits()
    await window.is_accessible()
    await window.open("/system?tab=audit", "System")
    await window.sees(window.text("audit:read"))
