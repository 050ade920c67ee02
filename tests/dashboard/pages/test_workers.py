"""Workers: hosts, processes, slots and jobs, and the order to drain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import until_cancelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def test_without_workers_the_page_says_what_to_start(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.rest.submit("greet")
    await window.open("/workers", "Workers")
    await window.sees(window.text("rowlock worker --app tasks:app"))
    await window.is_accessible()


async def test_a_worker_is_found_and_drained(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await worker()
    await window.open("/workers", "Workers")
    card = window.page.get_by_role("article", name="here")
    await window.sees(card)
    await window.is_accessible()
    await window.page.get_by_label("Find a host").fill("nothing like it")
    await window.sees(window.text("No worker matches the search"))
    await window.page.get_by_label("Find a host").fill("here")
    await window.sees(card)
    assert "q=here" in window.page.url
    await card.get_by_role("button", name="Orders for worker here").click()
    await window.page.get_by_role("menuitem", name="Drain").click()
    await window.button("Drain").click()
    await window.sees(window.text("Worker here drains"))
    await window.misses(card.get_by_text("up", exact=True))


async def test_workers_fit_a_phone(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit(phone=True)
    await worker()
    await window.open("/workers", "Workers")
    await window.sees(window.page.get_by_role("article", name="here"))
    await window.fits()
    await window.is_accessible()


async def test_a_process_shows_its_lanes_slots_jobs_version_and_memory(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    app = window.rest.app

    @app.job
    async def keep_busy() -> None:
        await until_cancelled()

    job = await keep_busy.enqueue()
    async with app.worker(name="here"):
        await window.open("/workers", "Workers")
        card = window.page.get_by_role("article", name="here")
        await window.sees(card.get_by_role("link", name="keep_busy"))
        await window.sees(card.get_by_role("meter", name="1 of"))
        for fact in ("Version", "Last heartbeat", "Memory"):
            await window.sees(card.get_by_text(fact, exact=True))
        await card.get_by_role("link", name="keep_busy").click()
        await window.sees(window.text(str(job.public_id)))
