"""Every page and tab with something on it: axe in both themes, 320 pixels, readers, read-only servers, tenants."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.dashboard import page_list
from tests.dashboard.conftest import THEMES
from tests.waiting import eventually, until_cancelled

from rowlock import Context, Gate, Rate, Retry, Workflow
from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.dashboard.conftest import Visit

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

VIEWS: Final = frozenset(
    {
        Permission.READ,
        Permission.READ_ALL,
        Permission.READ_ARGS,
        Permission.WORKERS_VIEW,
        Permission.SCHEDULES_VIEW,
        Permission.AUDIT_READ,
    }
)
"""What a person holds who may see everything and change nothing."""
CLOSED_TO_READERS: Final = {"/jobs/new", "/system?tab=tokens", "/system?tab=roles", "/system?tab=webhooks"}
"""Pages that are there for orders alone."""
STATES: Final = {"awaits approval", "blocked", "queued", "running", "completed", "failed", "cancelled", "expired"}
HARMLESS: Final = frozenset(
    {"1 hour", "24 hours", "7 days", "Last 1 hour", "Last 24 hours", "Last 7 days", "Earlier", "Later", "As a table"}
    | {
        "All",
        *STATES,
        "completed with errors",
        "Views",
        "Order: Newest first",
        "Export",
        "Columns",
        "Dense rows",
        "Copy",
        "Copy the link",
    }
    | {
        "More",
        "Arguments and result",
        "Attempts",
        "Log",
        "Items",
        "Audit",
        "Related",
        "in progress",
        "skipped",
        "Compare",
    }
    | {"Open the job", "Open", "Muted", "Last seen", "Most frequent", "Newest cause", "Own frames", "As it was written"}
    | {"Show all"}
    | {"Graph", "Times", "Steps", "Zoom in", "Zoom out", "Fit the whole graph", "Gates", "Rates", "Locks"}
    | {
        "Health",
        "Database",
        "Tokens",
        "Roles",
        "Webhooks",
        "https://warehouse.example/hooks",
        "My permissions",
        "Check the seals",
        "As CSV",
        "As JSON",
        "Copy as curl",
        "Copy as Command line",
        "Copy as Python",
    }
)
"""What changes nothing. A button that is not named here is an order, and readers must not be offered it."""


@contextlib.asynccontextmanager
async def furnished(window: Visit) -> AsyncIterator[dict[str, tuple[str, str]]]:
    """Something on each page: {page as the router writes it: (its address, a text that is there once it is loaded)}."""
    app = window.rest.app

    @app.job(retry=Retry(attempts=1))
    async def break_down() -> None:
        json.loads("{")

    @app.job(gate=Gate("printer", limit=1), rate=Rate(10, per="1m").for_key("mail"))
    async def print_label(ctx: Context) -> None:
        async with ctx.lock("printer", "tray"):
            await until_cancelled()

    @app.job
    async def count() -> None: ...

    flow = Workflow("sales")
    flow.add("total", count.step(), after=[flow.add("north", count.step()), flow.add("south", count.step())])
    started = await flow.enqueue()
    failed = await break_down.enqueue()
    await print_label.enqueue()
    sorted_out = await window.rest.submit("sort_out", args={"names": ["a", "b", "c"]})
    async with app.worker(name="here"):

        async def ready() -> bool:
            ended = (await app.jobs.get(failed.id)).is_final and (await app.workflows.get(started.id)).is_final
            return ended and bool(await app.locks.list())

        await eventually(ready)
        yield await _more(window, sorted_out["id"], str(started.public_id))


async def _more(window: Visit, job: str, workflow: str) -> dict[str, tuple[str, str]]:
    await window.rest.submit("pay", args={"amount": 250})
    async with window.rest.client() as client:
        for path, body in (
            ("/schedules", {"name": "greeting", "kind": "greet", "args": {"name": "Ada"}, "cron": "30 6 * * MON-FRI"}),
            ("/tokens", {"name": "ci", "roles": ["operator"]}),
            ("/webhooks", {"url": "https://warehouse.example/hooks", "kinds": ["greet"]}),
        ):
            answer = await client.post(path, json=body)
            assert answer.status_code == 201, answer.text
        answer = await client.patch("/admin/workers/lanes/front", json={"slots": 3}, headers={"If-Match": "*"})
        assert answer.status_code == 200, answer.text
        answer = await client.patch(f"/admin/workers/jobs/{job}/priority", json={"priority": 3})

        async def grouped() -> list[Any]:
            return list((await client.get("/failures")).json()["items"])

        (cause,) = await eventually(grouped)

        async def ended() -> bool:
            return bool((await client.get(f"/jobs/{job}")).json()["finished_at"])

        await eventually(ended)
    one = f"/jobs/{job}?section="
    flow = f"/workflows/{workflow}?view="
    return {
        "/": ("/", "Needs attention"),
        "/jobs": ("/jobs", "found"),
        "/jobs/new": ("/jobs/new?kind=greet", "times"),
        "/jobs/:id?section=data": (f"{one}data", "names"),
        "/jobs/:id?section=attempts": (f"{one}attempts", "Run 1"),
        "/jobs/:id?section=log": (f"{one}log", "sorting a"),
        "/jobs/:id?section=items": (f"{one}items", "in progress"),
        "/jobs/:id?section=audit": (f"{one}audit", "job.submit"),
        "/jobs/:id?section=related": (f"{one}related", "Compare"),
        "/approvals": ("/approvals", "pay"),
        "/failures": ("/failures", "JSONDecodeError"),
        "/failures/:fingerprint": (f"/failures/{cause['fingerprint']}", "First seen"),
        "/workflows": ("/workflows", "sales"),
        "/workflows/:id?view=graph": (f"{flow}graph", "total"),
        "/workflows/:id?view=gantt": (f"{flow}gantt", "total"),
        "/workflows/:id?view=table": (f"{flow}table", "total"),
        "/schedules": ("/schedules", "greeting"),
        "/schedules/:name": ("/schedules/greeting", "Next runs"),
        "/lanes": ("/lanes", "front"),
        "/lanes/:name": ("/lanes/front", "Slots per worker process"),
        "/workers": ("/workers", "here"),
        "/limits?tab=gates": ("/limits?tab=gates", "printer"),
        "/limits?tab=rates": ("/limits?tab=rates", "mail"),
        "/limits?tab=locks": ("/limits?tab=locks", "tray"),
        "/incident": ("/incident", "Failures"),
        "/system?tab=health": ("/system?tab=health", "Upkeep"),
        "/system?tab=database": ("/system?tab=database", "job_attempts"),
        "/system?tab=tokens": ("/system?tab=tokens", "ci"),
        "/system?tab=roles": ("/system?tab=roles", "platform_admin"),
        "/system?tab=webhooks": ("/system?tab=webhooks&webhook=1", "Last deliveries"),
        "/system?tab=audit": ("/system?tab=audit", "lane:front"),
        "/system?tab=permissions": ("/system?tab=permissions", "jobs:cancel"),
    }


async def loaded(window: Visit, path: str, text: str) -> None:
    await window.open(path)
    await window.sees(window.page.locator("main").get_by_text(text).locator("visible=true"))


async def offers(window: Visit) -> set[str]:
    """What a page lets a person press besides links: names of buttons and of the entries of its menus."""
    buttons = window.page.locator("main button:visible")
    found = set()
    for each in await buttons.all():
        found.add(_name(await each.get_attribute("aria-label") or await each.inner_text()))
        if await each.get_attribute("aria-haspopup") == "menu":
            await each.click()
            found |= {_name(entry) for entry in await window.page.get_by_role("menuitem").all_inner_texts()}
            await window.page.keyboard.press("Escape")
    return found


def _name(text: str) -> str:
    """Without the count behind it."""
    return re.sub(r" [\d,]+$", "", " ".join(text.split()))


async def refused(window: Visit) -> None:
    """The API refuses what the pages do not offer."""
    for method, path, body in (
        ("PATCH", "/admin/workers/lanes/front", {"slots": 3}),
        ("POST", "/schedules/greeting/run", {}),
        ("POST", "/tokens", {"name": "mine"}),
        ("PATCH", "/retention/greet", {"keep": "3d"}),
    ):
        answer = await window.page.request.fetch(
            f"{window.url}/api/v1{path}", method=method, data=body, headers={"If-Match": "*"}
        )
        assert answer.status in (403, 404), (method, path, answer.status)


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "320 pixels"])
async def test_every_page_is_accessible_in_both_themes_and_no_wider_than_the_window(
    visit: Callable[..., Any], *, phone: bool
) -> None:
    window: Visit = await visit(phone=phone)
    wrong = []
    async with furnished(window) as pages:
        assert set(pages) == page_list.addresses()
        for theme, (page, (path, text)) in itertools.product(THEMES, pages.items()):
            # What the browser skips, as folded text, keeps the colours in which the page was opened.
            await window.wears(theme)
            try:
                await loaded(window, path, text)
                await window.fits()
                await window.is_accessible([theme])
            except Exception as found:  # noqa: BLE001 - every page is looked at, and all that is wrong is told
                wrong.append(f"{page}, {theme}: {found}")
    assert not wrong, "\n".join(wrong)


async def test_a_reader_sees_every_page_and_is_offered_no_order(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    window.rest.people.known["reader"] = Principal("reader", permissions=VIEWS)
    reader: Visit = await visit("reader")
    offered = {}
    async with furnished(window) as pages:
        for page, (path, text) in pages.items():
            if page in CLOSED_TO_READERS:
                await loaded(reader, path, "You may not see this")
            else:
                await loaded(reader, path, "jobs:read" if page.endswith("=permissions") else text)
            offered[page] = await offers(reader) - HARMLESS
            await refused(reader)
    assert {page: names for page, names in offered.items() if names} == {}
    assert reader.faults == []


async def test_a_read_only_server_shows_every_page_and_offers_no_order(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    shown: Visit = await visit(read_only=True)
    offered = {}
    async with furnished(window) as pages:
        for page, (path, text) in pages.items():
            await loaded(shown, path, "read-only" if page == "/jobs/new" else text)
            offered[page] = await offers(shown) - HARMLESS
    assert {page: names for page, names in offered.items() if names} == {}
    assert shown.faults == []


async def test_a_person_of_a_tenant_sees_own_jobs_and_meets_no_page_that_breaks(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    allowed = frozenset({Permission.READ, Permission.SUBMIT})
    window.rest.people.known["acme"] = Principal("acme", tenant="acme", permissions=allowed)
    person: Visit = await visit("acme")
    offered = {}
    async with furnished(window) as pages:
        own = await window.rest.submit(run_in="1h", tenant="acme")
        for page, (path, _text) in pages.items():
            await person.page.goto(person.url + path)
            await person.sees(person.page.locator("main h1"))
            offered[page] = await offers(person) - HARMLESS - {"Form", "JSON", "Enqueue"}
            # A person who may submit is shown which kinds there are.
            for others in () if page == "/jobs/new" else ("break_down", "print_label", "greeting", "sales"):
                assert await person.page.locator("main").get_by_text(others).count() == 0, (page, others)
            await refused(person)
        await person.open(f"/jobs/{own['id']}", "greet")
        await person.sees(person.text("Why is it not running?"))
        await person.open("/jobs", "Jobs")
        await person.sees(person.text("1 found"))
    assert {page: names for page, names in offered.items() if names} == {}
    assert person.faults == []
