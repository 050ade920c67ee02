"""The page New job: a form from the kind's schema, JSON, options, what the API refuses, copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually

from rowlock.model.access import Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


async def last_job(window: Visit) -> dict[str, Any]:
    async with window.rest.client() as client:
        return dict((await client.get("/jobs?limit=1")).json()["items"][0])


async def registered(window: Visit, worker: Callable[..., Any]) -> None:
    """Wait until the worker has registered its kinds."""
    await worker()

    async def known() -> bool:
        async with window.rest.client() as client:
            return "greet" in [kind["name"] for kind in (await client.get("/kinds")).json()["items"]]

    await eventually(known)


async def test_a_job_is_enqueued_from_a_form(visit: Callable[..., Any], worker: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await registered(window, worker)
    await window.open("/jobs/new", "New job")
    await window.page.get_by_label("Kind").select_option("greet")
    await window.sees(window.text("Say hello."))
    await window.is_accessible()
    await window.button("Enqueue").click()
    await window.sees(window.text("This is required"))
    await window.page.get_by_label("name", exact=True).fill("Ada")
    await window.page.get_by_label("times (optional)").fill("two")
    await window.sees(window.text("A whole number is expected"))
    await window.page.get_by_label("times (optional)").fill("2")
    await window.page.get_by_label("Priority").fill("7")
    await window.page.get_by_label("Start in").fill("1h")
    await window.page.get_by_label("Tags").fill("eu, test")
    await window.button("Enqueue").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="greet"))
    made = await last_job(window)
    assert (made["args"], made["priority"], made["tags"]) == ({"name": "Ada", "times": 2}, 7, ["eu", "test"])


async def test_arguments_are_written_as_json_and_what_the_api_refuses_is_shown(
    visit: Callable[..., Any], worker: Callable[..., Any]
) -> None:
    window: Visit = await visit()
    await registered(window, worker)
    await window.open("/jobs/new?kind=greet", "New job")
    await window.button("JSON").click()
    area = window.page.get_by_label("Arguments, as a JSON object")
    await area.fill("{")
    await window.sees(window.text("This is not a JSON object"))
    assert await window.button("Enqueue").is_disabled()
    await area.fill('{"name": 5}')
    await window.button("Enqueue").click()
    await window.sees(window.page.get_by_role("alert"))
    await window.is_accessible()
    await area.fill('{"name": "Grace"}')
    await window.button("Enqueue").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="greet"))
    assert (await last_job(window))["args"] == {"name": "Grace"}


async def test_a_copy_begins_with_the_arguments_of_the_other_job(
    visit: Callable[..., Any], worker: Callable[..., Any]
) -> None:
    window: Visit = await visit()
    await registered(window, worker)
    job = await window.rest.submit(args={"name": "Ada", "times": 3}, run_in="1h")
    await window.open(f"/jobs/new?from={job['id']}", "New job")
    name = window.page.get_by_label("name", exact=True)
    await window.sees(name)
    assert await name.input_value() == "Ada"
    await name.fill("Hedy")
    await window.page.get_by_label("Start in").fill("1h")
    await window.button("Enqueue").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="greet"))
    assert (await last_job(window))["args"] == {"name": "Hedy", "times": 3}


async def test_without_the_permission_there_is_no_form(visit: Callable[..., Any]) -> None:
    window: Visit = await visit("reader", phone=True)
    window.rest.people.known["reader"] = Principal("reader", permissions=frozenset({Permission.READ}))
    await window.page.goto(f"{window.url}/jobs/new")
    await window.sees(window.text("It needs the permission jobs:submit"))
    await window.fits()
