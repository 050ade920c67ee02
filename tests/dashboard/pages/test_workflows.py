"""Workflows: the list, the graph with its keys, times, steps, and the orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock import Retry, Workflow

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

    from rowlock import Rowlock

pytestmark = pytest.mark.timeout(400)


def report(app: Rowlock, *, regions: int = 2) -> Workflow:
    """Regions side by side, then a step that fails, and one behind it."""

    @app.job
    async def extract(region: int) -> int:
        return region

    @app.job(retry=Retry(attempts=1))
    async def merge() -> None:
        raise ValueError("no template")

    @app.job
    async def publish() -> None: ...

    flow = Workflow("report")
    parts = [flow.add(f"extract {region}", extract.step(region)) for region in range(regions)]
    merged = flow.add("merge", merge.step(), after=parts)
    flow.add("publish", publish.step(), after=[merged])
    return flow


async def failed_report(window: Visit) -> str:
    app = window.rest.app
    started = await report(app).enqueue()
    async with app.worker():
        await app.workflows.wait(started.id, timeout=60)
    return str(started.public_id)


async def test_a_failed_workflow_is_found_understood_and_retried_from_a_step(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    await window.open("/workflows", "Workflows")
    await window.sees(window.text("There is no workflow"))
    public = await failed_report(window)
    await window.open("/workflows?state=failed", "Workflows")
    await window.is_accessible()
    await window.page.get_by_role("link", name="report").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Workflow report"))
    await window.sees(window.page.locator("svg g[data-step='merge']"))
    await window.page.locator("svg g[data-step='merge']").click()
    await window.sees(window.text("no template"))
    assert "step=merge" in window.page.url
    await window.is_accessible()
    await window.button("Retry from here").click()
    await window.button("Retry from here").click()
    await window.sees(window.text("The workflow runs again"))
    async with window.rest.client() as client:
        graph = (await client.get(f"/workflows/{public}")).json()
    states = {node["name"]: node["state"] for node in graph["nodes"]}
    assert (states["extract 0"], states["merge"]) == ("completed", "queued")


async def test_the_graph_is_walked_with_the_arrow_keys(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    public = await failed_report(window)
    await window.open(f"/workflows/{public}?step=merge", "Workflow report")
    graph = window.page.get_by_role("img", name="Graph of report")
    await window.sees(graph)
    await graph.focus()
    await window.page.keyboard.press("ArrowRight")
    await window.page.wait_for_url("**step=publish")
    await window.page.keyboard.press("Enter")
    await window.page.wait_for_url("**/jobs/*")


async def test_times_and_steps_show_the_same_without_a_graph(visit: Callable[..., Any]) -> None:
    window: Visit = await visit(phone=True)
    public = await failed_report(window)
    for view in ("gantt", "table"):
        await window.open(f"/workflows/{public}?view={view}", "Workflow report")
        await window.sees(window.page.get_by_role("link", name="extract 1"))
        await window.fits()
        await window.is_accessible()


async def test_a_workflow_that_goes_on_is_cancelled(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    started = await report(window.rest.app).enqueue()
    await window.open(f"/workflows/{started.public_id}", "Workflow report")
    await window.button("Cancel").click()
    await window.page.get_by_label("Note").fill("wrong month")
    await window.button("Cancel").click()
    await window.sees(window.text("The workflow is cancelled"))
    await window.sees(window.page.locator("h1").get_by_text("cancelled"))


@pytest.mark.slow
async def test_a_thousand_steps_stay_usable(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    started = await report(window.rest.app, regions=998).enqueue()
    await window.open(f"/workflows/{started.public_id}", "Workflow report")
    await window.sees(window.page.locator("svg g[data-step='extract 997']"))
    await window.page.get_by_role("tab", name="Steps").click()
    await window.sees(window.page.get_by_role("link", name="extract 0", exact=True))
    # Only what is near the screen is drawn.
    assert await window.page.locator("tbody tr").count() < 200
