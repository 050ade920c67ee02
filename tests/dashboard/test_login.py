"""Logging in and out: by token, at an identity provider, after a session that has ended."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.oidc_provider import CLIENT, SECRET

from rowlock.api.auth import SessionAuth, TokenAuth
from rowlock.api.auth.oidc import OIDCLogin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def issuer() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.oidc_provider"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def logs_out(window: Visit, name: str) -> None:
    await window.page.get_by_role("button", name=f"Account of {name}").click()
    await window.page.get_by_role("menuitem", name="Log out").click()


async def test_a_token_logs_in_and_the_page_asked_for_comes_then(visit: Callable[..., Any]) -> None:
    first: Visit = await visit()
    app = first.rest.app
    made = await app.tokens.create("ada", roles=["operator"])
    window: Visit = await visit(auth=[TokenAuth(app), SessionAuth(app)])
    await window.open("/lanes?q=x", "Log in to Rowlock")
    await window.page.get_by_label("Token").fill(made.text)
    await window.page.keyboard.press("Enter")
    await window.sees(window.page.get_by_role("heading", level=1, name="Lanes"))
    assert window.page.url.endswith("/lanes?q=x")
    assert made.text not in str(await window.page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})"))
    assert made.text not in str(await window.page.evaluate("document.cookie"))
    await window.page.reload()
    await window.sees(window.page.get_by_role("heading", level=1, name="Lanes"))

    await logs_out(window, "ada")
    await window.sees(window.page.get_by_role("heading", level=1, name="Log in to Rowlock"))
    await window.page.go_back()
    await window.page.goto(f"{window.url}/lanes")
    await window.sees(window.page.get_by_role("heading", level=1, name="Log in to Rowlock"))


async def test_a_revoked_token_ends_the_session_and_the_page_says_so(visit: Callable[..., Any]) -> None:
    first: Visit = await visit()
    app = first.rest.app
    made = await app.tokens.create("ada", roles=["operator"])
    window: Visit = await visit(auth=[TokenAuth(app), SessionAuth(app)])
    await window.open("/lanes", "Log in to Rowlock")
    await window.page.get_by_label("Token").fill(made.text)
    await window.button("Log in").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Lanes"))
    await app.tokens.revoke(made.token.id)
    await window.page.get_by_role("link", name="Workers").click()
    await window.sees(window.text("Your session has ended"))
    await window.is_accessible()


async def test_an_identity_provider_logs_in_and_leads_back(visit: Callable[..., Any], issuer: str) -> None:
    first: Visit = await visit()
    app = first.rest.app
    login = OIDCLogin(
        issuer=issuer, client_id=CLIENT, client_secret=SECRET, roles_claim="groups", roles={"staff": "operator"}
    )
    window: Visit = await visit(auth=[TokenAuth(app), SessionAuth(app)], oidc=login)

    async def as_ada(route: Any) -> None:  # noqa: ANN401 - playwright's Route
        await route.continue_(url=f"{route.request.url}&as=ada")

    await window.page.route(f"{issuer}/authorize*", as_ada)
    await window.open("/failures", "Log in to Rowlock")
    await window.page.get_by_role("link", name="Log in with Single sign-on").click()
    await window.sees(window.page.get_by_role("heading", level=1, name="Failures"))
    await window.sees(window.page.get_by_role("button", name="Account of Ada"))
    await window.open("/system?tab=permissions", "System")
    await window.sees(window.page.locator("code").get_by_text("jobs:cancel", exact=True))
    assert window.faults == []
