"""System: the doctor, the database, tokens that are shown once, the audit and one's own permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock.model.access import Permission, Principal
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def test_health_and_database_are_shown(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/system", "System")
    await window.sees(window.page.get_by_role("heading", name="Upkeep"))
    await window.sees(window.text("checks that passed"))
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
    await window.sees(window.text("The chain of seals is intact"))


async def test_a_person_sees_own_permissions_and_what_is_missing(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("ada", phone=True)
    window.rest.people.known["ada"] = Principal("ada", permissions=frozenset({Permission.READ}))
    await window.open("/system", "System")
    await window.sees(window.page.locator("code").get_by_text("jobs:read", exact=True))
    await window.fits()
    await window.is_accessible()
    await window.open("/system?tab=audit", "System")
    await window.sees(window.text("audit:read"))


async def test_a_token_is_rotated(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.rest.app.tokens.create("ci", roles=["operator"])
    await window.open("/system?tab=tokens", "System")
    await window.page.get_by_role("button", name="Orders for token ci").click()
    await window.page.get_by_role("menuitem", name="Rotate").click()
    await window.page.get_by_label("The old secret stays valid for").fill("2h")
    await window.button("Rotate").click()
    secret = window.page.locator("dialog[open] code")
    await window.sees(secret)
    assert (await secret.inner_text()).startswith("rlk_")


async def test_a_role_is_given_and_taken_away(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/system?tab=roles", "System")
    await window.page.get_by_label("Give operator to").fill("ada@shop.example")
    await window.page.get_by_role("region", name="operator").get_by_role("button", name="Give").click()
    await window.sees(window.text("ada@shop.example has the role operator"))
    await window.button("Take operator away from ada@shop.example").click()
    await window.button("Take it away").click()
    await window.sees(window.text("ada@shop.example no longer has the role operator"))


async def test_retention_is_set_changed_and_given_back_to_the_code(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()

    async def kept() -> list[tuple[str, str, float]]:
        async with window.rest.client() as client:
            rules = (await client.get("/retention")).json()["items"]
        return [(rule["kind"], rule["state"], rule["keep"]) for rule in rules if rule["source"] == "deployment"]

    await window.open("/system?tab=database", "System")
    await window.button("New rule").click()
    await window.page.get_by_label("Kind", exact=True).fill("*")
    await window.page.get_by_label("Final state", exact=True).select_option("failed")
    await window.page.get_by_label("Keep for").fill("soon")
    await window.button("Save").click()
    await window.sees(window.page.get_by_role("alert"))
    await window.page.get_by_label("Keep for").fill("30d")
    await window.is_accessible()
    await window.button("Save").click()
    await window.sees(window.text("Retention of every kind was changed"))
    assert await kept() == [("*", "failed", 30 * 86_400.0)]
    orders = window.page.get_by_role("button", name="Orders for retention of every kind, failed")
    await orders.click()
    await window.page.get_by_role("menuitem", name="Change").click()
    assert await window.page.get_by_label("Keep for").input_value() == "30d"
    await window.page.get_by_label("Keep for").fill("14d")
    await window.button("Save").click()
    await window.sees(window.page.get_by_role("table", name="Retention").get_by_text("14 d"))
    await orders.click()
    await window.page.get_by_role("menuitem", name="Reset to the declared settings").click()
    await window.button("Reset to the declared settings").click()
    await window.sees(window.text("Retention of every kind follows the code again"))
    assert await kept() == []


async def webhook(window: Visit) -> dict[str, Any]:
    async with window.rest.client() as client:
        return dict((await client.get("/webhooks/1")).json())


async def test_a_webhook_is_added_and_its_secret_shown_once(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/system?tab=webhooks", "System")
    await window.sees(window.text("There is no webhook"))
    await window.is_accessible()
    await window.button("New webhook").click()
    await window.page.get_by_label("URL").fill("http://warehouse.example/hooks")
    await window.page.get_by_label("Kinds").fill("report.*, greet")
    await window.page.get_by_label("failed", exact=True).check()
    await window.button("New webhook").click()
    await window.sees(window.page.get_by_role("alert").filter(has_text="https"))
    await window.page.get_by_label("URL").fill("https://warehouse.example/hooks")
    await window.is_accessible()
    await window.button("New webhook").click()
    secret = window.page.locator("dialog[open] code")
    await window.sees(secret)
    assert (await secret.inner_text()).startswith("whsec_")
    await window.page.locator("dialog[open] footer").get_by_role("button", name="Close").click()
    made = await webhook(window)
    assert (made["kinds"], made["states"]) == (["report.*", "greet"], ["failed"])
    assert await window.text("whsec_").count() == 0


async def test_a_webhook_takes_every_order(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    made = await window.rest.app.webhooks.add("https://warehouse.example/hooks")

    async def order(name: str) -> None:
        await window.page.get_by_role("button", name="Orders for webhook 1").click()
        await window.page.get_by_role("menuitem", name=name, exact=True).click()

    await window.open("/system?tab=webhooks", "System")
    await order("Send a test")
    await window.sees(window.page.get_by_role("table", name="Last deliveries").get_by_text("webhook.test"))
    assert "webhook=1" in window.page.url
    await window.is_accessible()
    await order("Edit")
    await window.page.get_by_label("result", exact=True).check()
    await window.button("Save").click()
    await window.sees(window.text("Webhook 1 was changed"))
    assert (await webhook(window))["include"] == ["result"]
    await order("Disable")
    await window.button("Disable").click()
    await window.sees(window.page.get_by_role("cell", name="disabled"))
    await order("Enable")
    await window.sees(window.text("Webhook 1 is enabled"))
    await order("Rotate the secret")
    await window.button("Rotate the secret").click()
    secret = window.page.locator("dialog[open] code")
    await window.sees(secret)
    assert await secret.inner_text() != made.secret
    await window.page.locator("dialog[open] footer").get_by_role("button", name="Close").click()
    await order("Remove")
    await window.button("Remove").click()
    await window.sees(window.text("There is no webhook"))


async def test_the_footer_names_the_version_of_the_schema(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/system", "System")
    await window.sees(window.page.locator("footer").get_by_text(f"schema {migrate.newest()}"))
