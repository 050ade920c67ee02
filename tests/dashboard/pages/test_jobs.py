"""The page Jobs: search, states, selection, bulk orders, views, export, keys, states without data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def enqueued(window: Visit, count: int, **more: Any) -> list[str]:  # noqa: ANN401 - JSON
    return [(await window.rest.submit(run_in="1h", **more))["id"] for _ in range(count)]


async def shown(window: Visit) -> int:
    return await window.page.locator("tr[data-key]").count()


async def test_a_search_is_completed_run_and_kept_in_the_address(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await enqueued(window, 2)
    await enqueued(window, 1, kind="pay", args={"amount": 5})
    await window.open("/jobs", "Jobs")
    await window.sees(window.text("3 found"))
    await window.is_accessible()
    page = window.page
    await page.keyboard.press("/")
    await page.keyboard.type("kin")
    await window.sees(page.get_by_role("option", name="kind:"))
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await page.keyboard.type("pay")
    await page.keyboard.press("Enter")
    await window.sees(window.text("1 found"))
    assert "q=kind%3Apay" in page.url
    await page.reload()
    await window.sees(window.text("1 found"))
    await page.go_back()
    await window.sees(window.text("3 found"))


async def test_a_wrong_search_says_what_is_wrong_and_an_empty_one_what_to_leave_out(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/jobs", "Jobs")
    await window.sees(window.text("No jobs yet"))
    await window.is_accessible()
    await enqueued(window, 1)
    await window.open("/jobs?q=state:nonsense")
    await window.sees(window.page.get_by_role("alert").filter(has_text="nonsense"))
    await window.open("/jobs?q=state:failed+kind:greet")
    await window.sees(window.text("No job matches"))
    await window.button("Search without state:failed").click()
    await window.sees(window.text("1 found"))


async def test_states_are_filters_with_counts(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await enqueued(window, 2)
    await enqueued(window, 1, kind="pay", args={"amount": 5})
    await window.open("/jobs?q=kind:greet,pay")
    tab = window.page.get_by_role("button", name="awaits approval 1")
    await window.sees(tab)
    await tab.click()
    await window.sees(window.text("1 found"))
    assert "state%3Apending+kind%3Agreet%2Cpay" in window.page.url
    await window.sees(window.page.get_by_role("button", name="queued 2"))


async def test_selected_jobs_get_an_order_after_a_count(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    ids = await enqueued(window, 4)
    await window.open("/jobs", "Jobs")
    await window.page.get_by_label(f"Select {ids[3]}").check()
    await window.page.get_by_label(f"Select {ids[1]}").click(modifiers=["Shift"])
    await window.sees(window.text("3 selected"))
    await window.button("Cancel").click()
    await window.sees(window.text("3 jobs can take this order."))
    await window.is_accessible()
    await window.page.get_by_label("Note").fill("wrong batch")
    await window.button("Cancel 3").click()
    await window.sees(window.text("3 done, 0 skipped"))
    await window.page.get_by_role("button", name="Close", exact=True).last.click()
    await window.sees(window.page.get_by_role("button", name="cancelled 3"))
    states = await window.rest.store.value("SELECT array_agg(state ORDER BY id) FROM {s}.jobs")
    assert states == ["queued", "cancelled", "cancelled", "cancelled"]


async def test_all_that_match_get_an_order_also_those_not_loaded(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await enqueued(window, 1)
    await window.rest.app.task("greet").options(run_in="1h").enqueue_many([{"name": str(n)} for n in range(250)])
    await enqueued(window, 1, kind="pay", args={"amount": 5})
    await window.open("/jobs?q=kind:greet")
    await window.sees(window.text("251 found"))
    assert await shown(window) < 100  # drawn only near the window
    await window.page.get_by_label("Select all loaded jobs").check()
    await window.button("Select all 251 matching jobs").click()
    await window.button("Priority").click()
    await window.page.get_by_label("New priority").fill("7")
    await window.button("Priority").click()
    await window.button("Change 251").click()
    await window.sees(window.text("251 done, 0 skipped"))
    assert await window.rest.store.value("SELECT count(*) FROM {s}.jobs WHERE priority = 7") == 251
    assert await window.rest.store.value("SELECT count(*) FROM {s}.jobs") == 252


async def test_a_selection_ends_with_its_search(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    ids = await enqueued(window, 2)
    await window.open("/jobs", "Jobs")
    await window.page.get_by_label(f"Select {ids[0]}").check()
    await window.sees(window.text("1 selected"))
    await window.page.get_by_role("button", name="queued 2").click()
    await window.misses(window.text("1 selected"))


async def test_new_jobs_are_announced_and_do_not_move_the_list(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    (first,) = await enqueued(window, 1)
    await window.open("/jobs", "Jobs")
    await window.sees(window.page.get_by_role("link", name=first))
    await window.sees(window.page.get_by_text("Live", exact=True))
    (second,) = await enqueued(window, 1)
    await window.sees(window.button("1 new"))
    assert await window.page.get_by_role("link", name=second).count() == 0
    await window.page.locator("h1").click()
    await window.page.keyboard.press(".")
    await window.sees(window.page.get_by_role("link", name=second))
    await window.misses(window.button("1 new"))


async def test_a_row_changes_in_place_when_its_job_runs(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit()
    job = await window.rest.submit()
    await window.open("/jobs", "Jobs")
    row = window.page.locator(f'tr[data-key="{job["id"]}"]')
    await window.sees(row.get_by_text("queued"))
    await worker()
    await window.sees(row.get_by_text("completed"))


async def test_keys_move_select_and_open(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    ids = await enqueued(window, 2)
    await window.open("/jobs", "Jobs")
    await window.sees(window.page.get_by_role("link", name=ids[0]))
    for key in ("j", "j", "x"):
        await window.page.keyboard.press(key)
    await window.sees(window.text("1 selected"))
    await window.page.keyboard.press("c")
    await window.sees(window.text("1 job can take this order."))
    await window.page.keyboard.press("Escape")
    await window.page.keyboard.press("k")
    await window.page.keyboard.press("Enter")
    await window.sees(window.page.get_by_role("heading", level=1, name="greet"))
    assert ids[1] in window.page.url


async def test_columns_density_and_order_are_chosen(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    ids = await enqueued(window, 2)
    await window.open("/jobs", "Jobs")
    await window.button("Columns").click()
    await window.page.get_by_label("Tenant").check()
    await window.page.get_by_label("Created").uncheck()
    await window.is_accessible()
    await window.page.keyboard.press("Escape")
    await window.sees(window.page.get_by_role("columnheader", name="Tenant"))
    assert await window.page.get_by_role("columnheader", name="Created").count() == 0
    await window.button("Dense rows").click()
    await window.sees(window.button("Roomy rows"))
    await window.page.get_by_role("button", name="Order: Newest first").click()
    await window.page.get_by_role("menuitemradio", name="Oldest first").click()
    await window.sees(window.page.locator("tbody tr").first.filter(has_text=ids[0]))
    await window.page.reload()
    await window.sees(window.page.get_by_role("columnheader", name="Tenant"))
    await window.sees(window.page.locator("tbody tr").first.filter(has_text=ids[0]))


async def test_a_view_is_saved_used_and_removed(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await enqueued(window, 1)
    await window.open("/jobs?q=state:queued&sort=oldest")
    await window.button("Views").click()
    await window.page.get_by_label("Name").fill("waiting ones")
    await window.button("Save").click()
    await window.sees(window.page.get_by_role("button", name="waiting ones state:queued"))
    await window.is_accessible()
    await window.page.goto(f"{window.url}/jobs")
    await window.button("Views").click()
    await window.page.get_by_role("button", name="waiting ones state:queued").click()
    await window.sees(window.page.get_by_role("button", name="Order: Oldest first"))
    assert "q=state%3Aqueued" in window.page.url
    await window.button("Views").click()
    await window.button("Remove waiting ones").click()
    await window.sees(window.text("No saved views yet"))


async def test_the_jobs_of_a_search_are_exported(visit: Callable[..., Any], tmp_path: Path) -> None:
    window: Visit = await visit()
    await window.rest.app.task("greet").options(run_in="1h").enqueue_many([{"name": str(n)} for n in range(230)])
    await enqueued(window, 1, kind="pay", args={"amount": 5})
    await window.open("/jobs?q=kind:greet")
    for menu, name in (("As CSV", "jobs.csv"), ("As JSON", "jobs.json")):
        await window.page.get_by_role("button", name="Export").click()
        async with window.page.expect_download() as download:
            await window.page.get_by_role("menuitem", name=menu).click()
        saved = await download.value
        assert saved.suggested_filename == name
        await saved.save_as(tmp_path / name)
    assert len((tmp_path / "jobs.csv").read_text().splitlines()) == 231
    exported = json.loads((tmp_path / "jobs.json").read_text())
    assert {job["kind"] for job in exported} == {"greet"}


async def test_a_reader_is_offered_no_order(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("reader")
    window.rest.people.known["reader"] = Principal(
        "reader", permissions=frozenset({Permission.READ, Permission.READ_ALL})
    )
    (job,) = await enqueued(window, 1)
    await window.open("/jobs", "Jobs")
    await window.page.get_by_label(f"Select {job}").check()
    await window.sees(window.text("1 selected"))
    for name in ("Cancel", "Retry", "Approve", "Delete", "Priority"):
        assert await window.button(name).count() == 0
    assert await window.page.get_by_role("link", name="New job").count() == 0


async def test_a_tenant_sees_its_own_jobs(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("acme")
    own = frozenset({Permission.READ, Permission.SUBMIT, Permission.CANCEL})
    window.rest.people.known["acme"] = Principal("acme", tenant="acme", permissions=own)
    (theirs,) = await enqueued(window, 1, tenant="other")
    (ours,) = await enqueued(window, 1, tenant="acme")
    await window.page.goto(f"{window.url}/")  # without the overview, one begins with one's jobs
    await window.sees(window.page.get_by_role("link", name=ours))
    assert await window.page.get_by_role("link", name=theirs).count() == 0
    await window.page.goto(f"{window.url}/jobs/{theirs}")
    await window.sees(window.text("There is no job"))


async def test_the_page_fits_a_phone(visit: Callable[..., Any]) -> None:
    window: Visit = await visit(phone=True)
    await window.rest.app.task("greet").options(run_in="1h").enqueue_many([{"name": str(n)} for n in range(120)])
    await window.open("/jobs", "Jobs")
    await window.sees(window.text("120 found"))
    await window.fits()
    box = await window.page.get_by_role("link", name="greet").first.bounding_box()
    assert box is not None
    assert box["width"] > 30  # the whole word, also where only rows near the screen are drawn
    await window.is_accessible()


async def test_every_waiting_job_says_why_with_one_request(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url) if "/explan" in request.url else None)
    (later,) = await enqueued(window, 1)
    held = await window.rest.submit("pay", args={"amount": 5})
    unserved = await window.rest.submit()
    await window.open("/jobs", "Jobs")
    for job, reason in ((later, "scheduled for later"), (held["id"], "awaits approval"), (unserved["id"], "no lane")):
        row = window.page.locator(f'tr[data-key="{job}"]')
        await window.sees(row.get_by_text(reason).locator("visible=true"))
    assert len(asked) == 1
    assert all(job in asked[0] for job in (later, held["id"], unserved["id"]))
    await window.is_accessible()


async def test_a_phone_shows_behind_a_button_why_a_job_waits(visit: Callable[..., Any]) -> None:
    window: Visit = await visit(phone=True)
    held = await window.rest.submit("pay", args={"amount": 5})
    await window.open("/jobs", "Jobs")
    await window.page.get_by_role("button", name=f"Why {held['id']} waits").click()
    await window.sees(window.page.get_by_role("dialog").get_by_text("It has been awaiting approval"))
    await window.fits()
    await window.is_accessible()


async def test_a_shared_view_is_there_for_others(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await enqueued(window, 1)
    await window.open("/jobs?q=state:queued")
    await window.button("Views").click()
    await window.page.get_by_label("Name").fill("waiting ones")
    await window.page.get_by_label("Everyone may use it").check()
    await window.button("Save").click()
    await window.sees(window.page.get_by_role("button", name="waiting ones state:queued"))
    other: Visit = await visit("boss")
    await other.open("/jobs", "Jobs")
    await other.button("Views").click()
    await other.sees(other.page.get_by_role("button", name="waiting ones state:queued"))


async def test_a_selection_offers_only_orders_that_a_selected_job_can_take(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    (queued,) = await enqueued(window, 1)
    (pending,) = await enqueued(window, 1, kind="pay", args={"amount": 5})
    await window.open("/jobs", "Jobs")
    bar = window.page.get_by_role("region", name="Orders for the selected jobs").get_by_role("button")
    await window.page.get_by_label(f"Select {queued}").check()
    await window.sees(window.text("1 selected"))
    assert await bar.all_inner_texts() == ["Priority", "Cancel", "Clear the selection"]
    await window.page.get_by_label(f"Select {pending}").check()
    await window.sees(window.text("2 selected"))
    assert await bar.all_inner_texts() == ["Approve", "Reject", "Priority", "Cancel", "Clear the selection"]
