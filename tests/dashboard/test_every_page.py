"""Every page with something on it: axe in both themes, 320 pixels, a read-only server, a person of one tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.waiting import eventually

from rowlock import Gate, Rate, Retry, Workflow
from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

ORDERS: Final = (
    "New job",
    "New lane",
    "New schedule",
    "New token",
    "Edit",
    "Pause",
    "Retry",
    "Cancel",
    "Approve",
    "Run now",
)
"""Names of buttons and links that change something."""


async def furnish(window: Visit) -> dict[str, str]:
    """Something for each page; what the addresses need: {path: heading or text that shows that it is there}."""
    app = window.rest.app

    @app.job(retry=Retry(attempts=1))
    async def break_down() -> None:
        raise TimeoutError("the warehouse did not answer")

    @app.job(gate=Gate("printer", limit=1), rate=Rate(10, per="1m").for_key("mail"))
    async def print_label() -> None: ...

    @app.job
    async def count() -> None: ...

    flow = Workflow("sales")
    flow.add("total", count.step(), after=[flow.add("north", count.step()), flow.add("south", count.step())])
    started = await flow.enqueue()
    failed = await break_down.enqueue()
    await print_label.enqueue()
    async with app.worker(name="here"):

        async def ended() -> bool:
            return (await app.jobs.get(failed.id)).is_final and (await app.workflows.get(started.id)).is_final

        await eventually(ended)
    await window.rest.submit("pay", args={"amount": 250})
    waiting = await window.rest.submit(run_in="1h")
    async with window.rest.client() as client:
        for path, body in (
            ("/schedules", {"name": "greeting", "kind": "greet", "args": {"name": "Ada"}, "cron": "30 6 * * MON-FRI"}),
            ("/tokens", {"name": "ci", "roles": ["operator"]}),
        ):
            answer = await client.post(path, json=body)
            assert answer.status_code == 201, answer.text
        answer = await client.patch("/admin/workers/lanes/front", json={"slots": 3}, headers={"If-Match": "*"})
        assert answer.status_code == 200, answer.text

        async def grouped() -> list[Any]:
            return list((await client.get("/failures")).json()["items"])

        (cause,) = await eventually(grouped)
    return {
        "/": "Needs attention",
        "/jobs": "found",
        f"/jobs/{waiting['id']}": "Why is it not running?",
        f"/jobs/{failed.public_id}": "the warehouse did not answer",
        "/jobs/new?kind=greet": "times",
        "/approvals": "250",
        "/failures": "TimeoutError",
        f"/failures/{cause['fingerprint']}": "First seen",
        "/workflows": "sales",
        f"/workflows/{started.public_id}": "total",
        "/schedules": "greeting",
        "/schedules/greeting": "Next runs",
        "/lanes": "front",
        "/lanes/front": "Slots per worker process",
        "/workers": "No worker is running",
        "/limits": "printer",
        "/limits?tab=rates": "mail",
        "/limits?tab=locks": "No lock",
        "/incident": "Failures",
        "/system": "Upkeep",
        "/system?tab=database": "job_attempts",
        "/system?tab=tokens": "ci",
        "/system?tab=audit": "lane:front",
        "/system?tab=permissions": "jobs:cancel",
    }


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "320 pixels"])
async def test_every_page_is_accessible_in_both_themes_and_no_wider_than_the_window(
    visit: Callable[..., Any], *, phone: bool
) -> None:
    window: Visit = await visit(phone=phone)
    wrong = []
    for path, shown in (await furnish(window)).items():
        await window.open(path)
        await window.sees(window.page.locator("body").get_by_text(shown).locator("visible=true"))
        try:
            await window.fits()
            await window.is_accessible()
        except AssertionError as found:
            wrong.append((path, str(found)[:600]))
    assert wrong == []


async def test_a_read_only_server_shows_every_page_and_offers_no_change(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    pages = await furnish(window)
    shown: Visit = await visit(read_only=True)
    for path, text in pages.items():
        if path.startswith("/jobs/new"):
            continue
        await shown.open(path)
        await shown.sees(shown.page.locator("body").get_by_text(text).locator("visible=true"))
        for name in ORDERS:
            for role in ("button", "link"):
                offered = shown.page.locator("main").get_by_role(role, name=name, exact=True)
                assert await offered.count() == 0, (path, name)
    assert shown.faults == []


async def test_a_person_of_a_tenant_meets_no_page_that_breaks(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("acme")
    allowed = frozenset({Permission.READ, Permission.SUBMIT})
    window.rest.people.known["acme"] = Principal("acme", tenant="acme", permissions=allowed)
    pages = await furnish(window)
    own = await window.rest.submit(run_in="1h", tenant="acme")
    for path in pages:
        await window.page.goto(window.url + path)
        await window.sees(window.page.get_by_role("heading", level=1))
        for name in ("Edit", "Pause", "Approve", "New lane", "New schedule", "New token", "Run now"):
            assert await window.button(name).count() == 0, (path, name)
    await window.open(f"/jobs/{own['id']}", "greet")
    await window.sees(window.text("Why is it not running?"))
    await window.open("/jobs", "Jobs")
    await window.sees(window.text("1 found"))
    assert window.faults == []
