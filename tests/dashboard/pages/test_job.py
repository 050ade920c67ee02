"""The page of one job: why it waits, its life, errors, log, items, data, and every order."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually, until_cancelled

from rowlock import Context, Retry, Workflow
from rowlock.model.access import ALL, Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def state_of(window: Visit, job: dict[str, Any]) -> str:
    async with window.rest.client() as client:
        return str((await client.get(f"/jobs/{job['id']}")).json()["state"])


async def becomes(window: Visit, job: dict[str, Any], state: str) -> None:
    async def reached() -> bool:
        return await state_of(window, job) == state

    await eventually(reached)


async def order(window: Visit, button: str, confirm: str, note: str | None = None) -> None:
    await window.button(button).click()
    if note is not None:
        await window.page.get_by_label("Note").fill(note)
    await window.button(confirm).click()


async def test_a_waiting_job_says_why_and_takes_orders(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("boss")
    job = await window.rest.submit("pay", args={"amount": 250})
    await window.open(f"/jobs/{job['id']}", "pay")
    await window.sees(window.text("It has been awaiting approval"))
    await window.sees(window.text("250"))
    await window.is_accessible()
    await order(window, "Approve", "Approve it", note="checked with Ada")
    await window.sees(window.page.locator("h1").get_by_text("queued"))
    await window.sees(window.text("approve by boss"))
    await window.sees(window.text("checked with Ada"))
    await order(window, "Cancel", "Cancel the job")
    await window.sees(window.page.locator("h1").get_by_text("cancelled"))
    await order(window, "Retry", "Retry it")
    await window.misses(window.page.locator("h1").get_by_text("cancelled"))
    assert await state_of(window, job) in {"queued", "pending"}


async def test_a_failed_job_shows_its_error_folded_to_own_frames(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    app = window.rest.app

    @app.job(retry=Retry(attempts=1))
    async def misread() -> None:
        json.loads("{")

    async with app.worker():
        await shows_its_error(window)


async def shows_its_error(window: Visit) -> None:
    job = await window.rest.submit("misread")
    await becomes(window, job, "failed")
    await window.open(f"/jobs/{job['id']}", "misread")
    await window.sees(window.text("Expecting property name"))
    # Those of json; the frames above the handler are not stored.
    await window.sees(window.text("frames of libraries"))
    await window.sees(window.page.locator("strong").get_by_text("misread", exact=True))
    await window.is_accessible()
    await window.button("As it was written").click()
    await window.sees(window.page.locator("pre").get_by_text("Traceback (most recent call last)"))
    await window.sees(window.text("Ended: failed"))
    await order(window, "Retry", "Retry it")
    await becomes(window, job, "failed")
    await window.page.get_by_role("tab", name="Attempts").click()
    await window.sees(window.page.get_by_role("heading", name="Run 2: attempt 1, failed"))
    await window.is_accessible()


async def test_two_attempts_are_compared(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await worker()
    job = await window.rest.submit("explode", max_attempts=2)
    await becomes(window, job, "failed")
    await window.open(f"/jobs/{job['id']}?section=attempts", "explode")
    boxes = window.page.get_by_role("checkbox", name="Compare: Run")
    await window.sees(boxes.nth(1))
    await boxes.nth(0).check()
    await boxes.nth(1).check()
    await window.button("Compare").click()
    await window.sees(window.page.get_by_role("table", name="Two attempts").get_by_text("Started"))
    await window.is_accessible()


async def test_progress_phases_items_and_log_are_shown(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await worker()
    walk = await window.rest.submit("walk", args={"steps": 4})
    sort = await window.rest.submit("sort_out", args={"names": ["a", "b", "c"]})
    await becomes(window, walk, "completed")
    await becomes(window, sort, "completed_with_errors")
    await window.open(f"/jobs/{walk['id']}", "walk")
    await window.sees(window.page.get_by_role("meter", name="walk"))
    await window.sees(window.text("1 of 4"))
    await window.open(f"/jobs/{sort['id']}?section=items", "sort_out")
    await window.sees(window.page.get_by_role("cell", name="failed"))
    await window.button("failed").click()
    await window.sees(window.text("b is bad"))
    await window.is_accessible()
    await window.page.get_by_role("tab", name="Log").click()
    await window.sees(window.page.get_by_role("log").get_by_text("sorting a"))
    await window.page.get_by_label("Find in the lines").fill("sorting c")
    await window.misses(window.page.get_by_role("log").get_by_text("sorting a"))
    await window.is_accessible()


async def test_secrets_stay_hidden(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("clerk")
    window.rest.people.known["clerk"] = Principal("clerk", permissions=ALL - {Permission.READ_ARGS})
    job = await window.rest.submit("login", args={"user": "ada", "password": "swordfish"}, run_in="1h")
    await window.open(f"/jobs/{job['id']}", "login")
    await window.sees(window.text("hidden"))
    assert "swordfish" not in await window.page.content()
    await window.button("More").click()
    await window.page.get_by_role("menuitem", name="Run again with other arguments").click()
    await window.sees(window.text("The secret of the other job is not copied."))
    assert "swordfish" not in await window.page.content()


async def test_a_waiting_job_is_edited_and_a_conflict_shows_both(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    job = await window.rest.submit(run_in="1h")
    await window.open(f"/jobs/{job['id']}", "greet")
    await window.button("Edit").click()
    await window.is_accessible()
    args = window.page.get_by_label("Arguments, as JSON")
    await args.fill("[1]")
    await window.sees(window.text("This is not a JSON object"))
    assert await window.button("Save").is_disabled()
    await args.fill('{"name": "Grace"}')
    async with window.rest.client() as client:
        seen = await client.get(f"/jobs/{job['id']}")
        changed = await client.patch(
            f"/jobs/{job['id']}", json={"priority": 9}, headers={"If-Match": seen.headers["etag"]}
        )
        assert changed.status_code == 200, changed.text
    await window.button("Save").click()
    await window.sees(window.text("Someone else changed it in the meantime"))
    await window.sees(window.page.get_by_role("table", name="Edit the job").get_by_text("priority"))
    await window.button("Save").click()
    await window.misses(window.page.get_by_role("dialog"))
    async with window.rest.client() as client:
        now = (await client.get(f"/jobs/{job['id']}")).json()
    assert now["args"] == {"name": "Grace"}


async def test_a_job_is_copied_deleted_and_written_for_a_shell(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    job = await window.rest.submit(run_in="1h")
    await window.open(f"/jobs/{job['id']}", "greet")
    for item, start in (
        ("curl", "curl -H"),
        ("Command line", "rowlock enqueue greet"),
        ("Python", "await greet.enqueue("),
    ):
        await window.button("More").click()
        await window.page.get_by_role("menuitem", name=f"Copy as {item}").click()

        async def copied(start: str = start) -> bool:
            return str(await window.page.evaluate("navigator.clipboard.readText()")).startswith(start)

        await eventually(copied)
    await order(window, "Cancel", "Cancel the job")
    await window.sees(window.page.locator("h1").get_by_text("cancelled"))
    await window.button("More").click()
    await window.page.get_by_role("menuitem", name="Run a copy").click()
    await window.misses(window.text(job["id"]))
    await window.open(f"/jobs/{job['id']}", "greet")
    await window.button("More").click()
    await window.page.get_by_role("menuitem", name="Delete").click()
    await window.button("Delete it").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Jobs"))
    assert await window.rest.store.value("SELECT count(*) FROM {s}.jobs") == 1


async def test_a_running_job_is_stopped_at_once(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    job = await window.rest.submit()
    await window.rest.store.execute(
        "UPDATE {s}.jobs SET state = 'running', claimed_at = now(), claimed_by = 1, attempt = 1, fence = fence + 1"
    )
    await window.open(f"/jobs/{job['id']}", "greet")
    await window.button("More").click()
    await window.page.get_by_role("menuitem", name="Stop now").click()
    await window.button("Stop it now").click()
    await window.sees(window.page.locator("h1").get_by_text("cancelled"))


async def test_jobs_are_compared_and_related_ones_found(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    one = await window.rest.submit(args={"name": "Ada"}, run_in="1h", refs={"project": 7})
    two = await window.rest.submit(args={"name": "Grace"}, run_in="1h")
    await window.open(f"/jobs/{one['id']}?section=related", "greet")
    await window.page.get_by_label("Its id").fill(two["id"])
    await window.button("Compare").click()
    table = window.page.get_by_role("table", name="Two jobs")
    await window.sees(table.get_by_role("row").filter(has_text="args.name").filter(has_text="Grace"))
    await window.is_accessible()
    await window.page.keyboard.press("Escape")
    await window.page.get_by_role("link", name="project 7").click()
    await window.sees(window.text("1 found"))


async def test_orders_are_in_the_audit(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    job = await window.rest.submit(run_in="1h")
    await window.open(f"/jobs/{job['id']}?section=audit", "greet")
    await order(window, "Cancel", "Cancel the job", note="not needed")
    await window.sees(window.page.get_by_role("cell", name="job.cancel"))
    await window.sees(window.page.get_by_role("cell", name="not needed"))
    await window.is_accessible()


async def test_a_reader_and_a_read_only_server_offer_no_orders(visit: Callable[..., Any]) -> None:
    reader: Visit = await visit("reader")
    reads = frozenset({Permission.READ, Permission.READ_ALL})
    reader.rest.people.known["reader"] = Principal("reader", permissions=reads)
    job = await reader.rest.submit("pay", args={"amount": 1})
    shown: Visit = await visit(read_only=True)
    for window in (reader, shown):
        await window.open(f"/jobs/{job['id']}", "pay")
        await window.sees(window.text("It has been awaiting approval"))
        for name in ("Approve", "Reject", "Cancel", "Edit"):
            assert await window.button(name).count() == 0
        assert await window.page.get_by_role("tab", name="Audit").count() == (window is shown)


async def test_a_job_that_is_gone_says_so(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/jobs/363M-KAPQ-NW11-0P")
    await window.sees(window.text("It may have been removed by retention."))
    await window.is_accessible()


async def test_the_page_fits_a_phone(visit: Callable[..., Any]) -> None:
    window: Visit = await visit(phone=True)
    job = await window.rest.submit("pay", args={"amount": 250})
    await window.open(f"/jobs/{job['id']}", "pay")
    await window.sees(window.text("It has been awaiting approval"))
    await window.fits()
    await window.is_accessible()


async def test_parents_and_children_lead_to_each_other(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    app = window.rest.app

    @app.job
    async def total() -> None: ...

    flow = Workflow("sales")
    flow.add("total", total.step(), after=[flow.add("north", total.step())])
    await flow.enqueue()
    async with window.rest.client() as client:
        found = (await client.get("/jobs", params={"q": "state:blocked"})).json()["items"]
    await window.open(f"/jobs/{found[0]['id']}?section=related", "total")
    await window.page.get_by_role("link", name="north").click()
    await window.page.get_by_role("tab", name="Related").click()
    await window.sees(window.page.get_by_role("region").get_by_role("link", name="total"))


async def test_the_log_of_a_running_job_goes_on_by_itself(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    app = window.rest.app
    go_on = asyncio.Event()

    @app.job
    async def tell(ctx: Context) -> None:
        ctx.log.info("the first line")
        await go_on.wait()
        ctx.log.info("the second line")
        await until_cancelled()

    job = await tell.enqueue()
    async with app.worker():
        await window.open(f"/jobs/{job.public_id}?section=log", "tell")
        lines = window.page.get_by_role("log")
        await window.sees(lines.get_by_text("the first line"))
        go_on.set()
        await window.sees(lines.get_by_text("the second line"))


async def test_a_carriers_id_of_its_message_is_among_the_facts(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    job = await window.rest.submit(run_in="1h")
    await window.rest.store.execute(
        "INSERT INTO {s}.job_deliveries (job_id, fence, carrier, backend_job_id, again_at)"
        " SELECT id, fence, 'arq', 'arq:1f9c', now() + interval '1 h' FROM {s}.jobs"
    )
    await window.open(f"/jobs/{job['id']}", "greet")
    facts = window.page.get_by_role("region", name="Facts")
    await window.sees(facts.get_by_text("arq:1f9c"))
    await window.sees(facts.get_by_text("Carrier's id"))
    await window.open("/jobs?q=backend:arq:1f9c", "Jobs")
    await window.sees(window.page.get_by_role("link", name=job["id"]))


async def test_a_job_that_awaits_approval_shows_local_times_and_no_command(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    job = await window.rest.submit("pay", args={"amount": 250})
    await window.open(f"/jobs/{job['id']}", "pay")
    why = window.page.get_by_role("region", name="Why is it not running?")
    await window.sees(why.get_by_text("It has been awaiting approval since"))
    text = await why.inner_text()
    assert "UTC" not in text, text
    assert "rowlock jobs approve" not in text, text
    # It was not put off, so there is no moment before which it must not run.
    assert await window.page.get_by_text("Not before", exact=True).count() == 0
    later = await window.rest.submit(run_in="1h")
    await window.open(f"/jobs/{later['id']}", "greet")
    await window.sees(window.page.get_by_text("Not before", exact=True))
