"""The dashboard below a path of another application, in a real browser."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI
from tests.api.conftest import running

from rowlock.api import RowlockAPI
from rowlock.api.auth import SessionAuth, TokenAuth

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


def hosted(api: RowlockAPI) -> Any:  # noqa: ANN401 - what running() takes
    """A FastAPI application with a page of its own and the dashboard at /back/office."""
    host = FastAPI()

    @host.get("/")
    async def front() -> str:
        return "the shop"

    host.mount("/back/office", api.asgi)
    return SimpleNamespace(asgi=host)


async def test_everything_works_below_a_path_of_a_fastapi_host(visit: Callable[..., Any]) -> None:
    window: Visit = await visit()
    app = window.rest.app
    made = await app.tokens.create("ada", roles=["platform_admin"])
    job = await window.rest.submit(run_in="1h")
    with running(hosted(RowlockAPI(app, auth=[TokenAuth(app), SessionAuth(app)]))) as address:
        window.url = f"{address}/back/office"
        # A link from outside to a page within, before the log-in.
        await window.open(f"/jobs/{job['id']}", "Log in to Rowlock")
        await window.page.get_by_label("Token").fill(made.text)
        await window.button("Log in").click()
        await window.sees(window.page.get_by_role("heading", level=1, name="greet"))
        (cookie,) = await window.page.context.cookies()
        assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Lax")
        # The stream of changes.
        await window.sees(window.button("Live"))
        await app.jobs.cancel(job["id"])
        await window.sees(window.page.locator("h1").get_by_text("cancelled"))
        # A page that is a file of its own, reached by a link, then by its address.
        async with window.page.expect_response(f"{window.url}/assets/workers-*.js") as chunk:
            await window.page.get_by_role("link", name="Workers").click()
        assert (await chunk.value).ok
        await window.page.wait_for_url(f"{window.url}/workers")
        await window.page.reload()
        await window.sees(window.page.get_by_role("heading", level=1, name="Workers"))
        assert window.faults == []
