"""The frame names its installation, a job leads to its relatives and says its place, roles are given and taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually

from rowlock import Rowlock, chain
from rowlock.model import ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def test_the_frame_and_the_title_name_the_installation(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/lanes", "Lanes")
    assert await window.page.title() == "Lanes · Rowlock"
    settings = window.rest.app.settings
    object.__setattr__(settings, "instance", "production")
    object.__setattr__(settings, "instance_colour", "red")
    await window.open("/lanes", "Lanes")
    await window.sees(window.page.get_by_role("banner").get_by_text("production", exact=True))
    await window.page.wait_for_function("document.title === 'Lanes · production · Rowlock'")
    await window.is_accessible()
    phone: Visit = await visit(phone=True)
    await phone.open("/lanes", "Lanes")
    await phone.fits()


async def test_a_step_leads_to_its_parents_and_children_and_back(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    step: Any = window.rest.app.task("greet")
    started = await chain(*(step.step(name=name, times=1) for name in "abc")).enqueue()
    view = await window.rest.app.workflows.get(started.id)
    first, second, _ = (ids.encode(each.job_id) for each in view.steps)
    await window.open(f"/jobs/{second}?section=related", "greet")
    related = window.page.get_by_role("region", name="Parents, children and hooks")
    await window.sees(related.get_by_text("Waits for it"))
    await window.is_accessible()
    await related.get_by_role("link").first.click()
    await window.page.wait_for_url(f"**/jobs/{first}*")
    await window.page.get_by_role("tab", name="Related").click()
    await related.get_by_role("link").first.click()
    await window.page.wait_for_url(f"**/jobs/{second}*")


async def test_a_waiting_job_says_how_many_are_before_it(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.rest.store.lane("default", kinds=["*"])
    for _ in range(3):
        job = await window.rest.submit("greet", args={"name": "Ada"})
    await window.open(f"/jobs/{job['id']}", "greet")
    await window.sees(window.text("2 jobs are ahead of it."))
    await window.is_accessible()


async def test_two_jobs_are_compared_under_an_address_of_their_own(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    one, other = [await window.rest.submit("greet", args={"name": name}) for name in ("Ada", "Bob")]
    await window.open(f"/jobs/{one['id']}?section=related", "greet")
    await window.page.get_by_label("Its id").fill(other["id"])
    await window.button("Compare").click()
    await window.sees(window.page.get_by_role("dialog").get_by_text("Bob"))
    await window.page.wait_for_url("**compare=*")
    await window.page.reload()
    await window.sees(window.page.get_by_role("dialog").get_by_text("Bob"))


async def test_roles_are_given_and_taken_away(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/system?tab=roles", "System")
    panel = window.page.get_by_role("region", name="operator")
    await window.sees(panel.get_by_text("jobs:cancel"))
    await panel.get_by_label("Give operator to").fill("ada@example.com")
    await panel.get_by_role("button", name="Give", exact=True).click()
    await window.sees(panel.get_by_text("ada@example.com"))
    await window.is_accessible()
    await panel.get_by_role("button", name="Take operator away from ada@example.com").click()
    await window.button("Take it away").click()
    await window.sees(panel.get_by_text("Nobody has been granted it here."))
    assert await window.rest.app.roles.grants() == []


async def test_a_schedule_gets_a_maintenance_window_and_options(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.rest.app.schedules.create("nightly", "greet", every="1h", args={"name": "Ada"})
    await window.open("/schedules/nightly", "nightly")
    await window.button("Edit").click()
    await window.button("Add a window").click()
    await window.page.get_by_label("Hours").fill("01:00-05:00")
    await window.page.get_by_label("Days").fill("sat,sun")
    await window.page.get_by_label("Run times inside").select_option("defer")
    await window.page.get_by_label("Options of its jobs").fill('{"priority": 7}')
    await window.is_accessible()
    await window.button("Save").click()
    await window.sees(window.text("01:00-05:00 on sat,sun: defer"))

    async def stored() -> bool:
        found = await window.rest.app.schedules.get("nightly")
        return [each.hours for each in found.windows] == ["01:00-05:00"] and found.options["priority"] == 7

    await eventually(stored)
    await window.button("Edit").click()
    await window.page.get_by_label("Hours").fill("25:00-26:00")
    await window.button("Save").click()
    await window.sees(window.page.get_by_role("dialog").get_by_text("25:00"))


async def test_a_worker_shows_its_memory(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit()
    app: Rowlock = await worker()

    async def known() -> bool:
        return (await app.workers.list())[0].memory is not None

    await eventually(known)
    await window.open("/workers", "Workers")
    card = window.page.get_by_role("article", name="here")
    await window.sees(card.get_by_text("Memory"))
    await window.sees(card.get_by_text(" MB"))
