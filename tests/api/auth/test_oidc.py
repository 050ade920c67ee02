"""Logins at an identity provider, which is a process of its own: who gets in, and why others do not."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from tests.oidc_provider import CLIENT, SECRET
from tests.waiting import PATIENCE

from rowlock import ConfigurationError
from rowlock.api import RowlockAPI
from rowlock.api.auth import SessionAuth, TokenAuth
from rowlock.api.auth.login_attempt import LoginAttempt, local_path
from rowlock.api.auth.oidc import OIDCLogin, configured_login
from rowlock.api.problems import Problem
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.api.conftest import Rest

DOOR: Final = "https://door/api/v1"
SAME: Final = {"Sec-Fetch-Site": "same-origin"}
PAGE: Final = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.oidc_provider"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def make_door(make_rest: Callable[..., Rest], issuer: str) -> Callable[..., Rest]:
    def make(**more: Any) -> Rest:  # noqa: ANN401 - OIDCLogin's
        options = {"issuer": issuer, "client_id": CLIENT, "client_secret": SECRET, "roles_claim": "groups"}
        rest = make_rest()
        login = OIDCLogin(**{**options, "roles": {"staff": "operator"}, **more})
        rest.api = RowlockAPI(rest.app, auth=[TokenAuth(rest.app), SessionAuth(rest.app)], oidc=login)
        return rest

    return make


@pytest.fixture
def door(make_door: Callable[..., Rest]) -> Rest:
    return make_door()


class Browser:
    """Follows the addresses that it is sent to, and keeps cookies."""

    def __init__(self, rest: Rest, client: httpx.AsyncClient) -> None:
        self.rest, self.client = rest, client

    async def begin(self, **query: str) -> httpx.Response:
        return await self.client.get("/auth/login/oidc", params=query)

    async def at_provider(self, begun: httpx.Response, who: str = "ada") -> str:
        """Log in there; the address that the provider sends the browser back to."""
        assert begun.status_code == 303, begun.text
        async with httpx.AsyncClient(timeout=PATIENCE) as there:
            answer = await there.get(f"{begun.headers['location']}&{urlencode({'as': who})}")
        assert answer.status_code == 303
        return answer.headers["location"]

    async def log_in(self, who: str = "ada", **query: str) -> httpx.Response:
        return await self.client.get(await self.at_provider(await self.begin(**query), who), headers=PAGE)


@contextlib.asynccontextmanager
async def opened_browser(rest: Rest) -> AsyncIterator[Browser]:
    async with rest.client(None, base=DOOR) as client:
        yield Browser(rest, client)


async def test_a_person_logs_in_works_and_logs_out(door: Rest, issuer: str) -> None:
    async with opened_browser(door) as browser:
        client = browser.client
        assert (await client.get("/me")).status_code == 401
        logins = (await client.get("/auth/logins")).json()
        assert logins == {"token": True, "oidc": {"label": "Single sign-on", "url": "auth/login/oidc"}}
        begun = await browser.begin(return_to="/jobs?q=state:failed")
        asked = parse_qs(urlsplit(begun.headers["location"]).query)
        assert asked["redirect_uri"] == [f"{DOOR}/auth/callback"]
        assert {"__Host-rowlock-login", "httponly", "secure", "samesite=lax"} <= set(
            begun.headers["set-cookie"].lower().replace("__host-rowlock-login=", "__Host-rowlock-login; ").split("; ")
        )
        back = await client.get(await browser.at_provider(begun), headers=PAGE)
        assert (back.status_code, back.headers["location"]) == (303, "/jobs?q=state:failed"), back.text
        me = (await client.get("/me")).json()
        assert (me["subject"], me["display"], me["roles"], me["kind"]) == ("ada", "Ada", ["operator"], "user")
        assert "jobs:cancel" in me["permissions"]
        assert (await client.get("/features")).json()["logins"] == ["token", "oidc"]
        assert (await client.post("/jobs", json={"kind": "explode"}, headers=SAME)).status_code == 202
        foreign = await client.post("/jobs", json={"kind": "explode"}, headers={"Sec-Fetch-Site": "cross-site"})
        assert (foreign.status_code, foreign.json()["code"]) == (403, "cross-site")
        assert (await client.post("/auth/logout/oidc", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 403
        out = await client.post("/auth/logout/oidc", headers=SAME)
        ending = urlsplit(out.json()["url"])
        assert f"{ending.scheme}://{ending.netloc}{ending.path}" == f"{issuer}/logout"
        assert parse_qs(ending.query) == {"client_id": [CLIENT], "post_logout_redirect_uri": ["https://door/"]}
        assert (await client.get("/me")).status_code == 401
    entries = await door.app.audit.list()
    assert {"session.open", "session.close"} <= {entry.action for entry in entries}
    assert {entry.target for entry in entries if entry.action.startswith("session")} == {"user:ada"}


async def test_without_a_page_to_return_to_the_dashboard_follows(door: Rest) -> None:
    async with opened_browser(door) as browser:
        back = await browser.log_in()
        assert (back.status_code, back.headers["location"]) == (303, "/")


@pytest.mark.parametrize(
    ("who", "why"),
    [
        ("denied", r"refused the login \(access_denied: Ada said &lt;no&gt;\)"),
        ("expired", "expired 10[0-9]{2} s ago"),
        ("from the future", "in the future: the clock of this server is behind"),
        ("of another login", "its nonce differs"),
        ("of another issuer", "is from &#x27;https://elsewhere.example&#x27;"),
        ("for another", "for another application"),
        ("for several", "for another application"),
        ("nobody", "did not say the claim sub"),
        ("forged", "The id token is not valid"),
    ],
)
async def test_an_answer_that_does_not_hold_opens_no_session(door: Rest, who: str, why: str) -> None:
    async with opened_browser(door) as browser:
        refused = await browser.log_in(who)
        assert refused.status_code == 401, refused.text
        assert re.search(why, refused.text), refused.text
        assert "auth/login/oidc" in refused.text
        assert refused.headers["content-security-policy"].startswith("default-src 'none'")
        assert (await browser.client.get("/me")).status_code == 401
    assert await door.store.value("SELECT count(*) FROM {s}.sessions") == 0


async def test_a_person_without_a_role_is_told_so_and_gets_in_with_a_grant(door: Rest) -> None:
    async with opened_browser(door) as browser:
        refused = await browser.log_in("without a role")
        assert refused.status_code == 403
        assert "rowlock roles grant" in refused.text
        await door.app.roles.grant("without a role", "user")
        assert (await browser.log_in("without a role")).status_code == 303
        assert (await browser.client.get("/me")).json()["roles"] == ["user"]
        await door.app.roles.revoke("without a role", "user")
        assert (await browser.client.get("/me")).json()["permissions"] == []


async def test_a_tampered_state_is_refused(door: Rest) -> None:
    async with opened_browser(door) as browser:
        address = await browser.at_provider(await browser.begin())
        tampered = address.replace("state=", "state=x")
        refused = await browser.client.get(tampered)
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert "its state differs" in refused.json()["detail"]


async def test_the_answer_of_another_browser_is_refused(door: Rest) -> None:
    async with opened_browser(door) as attacker:
        address = await attacker.at_provider(await attacker.begin())
    async with opened_browser(door) as victim:
        refused = await victim.client.get(address)
        assert refused.status_code == 401
        assert "has begun no login here" in refused.json()["detail"]
        await victim.begin()
        refused = await victim.client.get(address)
        assert "its state differs" in refused.json()["detail"]
        assert (await victim.client.get("/me")).status_code == 401


async def test_a_code_is_worth_one_login(door: Rest) -> None:
    async with opened_browser(door) as browser:
        begun = await browser.begin()
        cookie = begun.headers["set-cookie"].partition(";")[0]
        address = await browser.at_provider(begun)
        assert (await browser.client.get(address)).status_code == 303
        again = await browser.client.get(address)
        assert "has begun no login here" in again.json()["detail"]
        replayed = await browser.client.get(address, headers={"Cookie": cookie})
        assert replayed.status_code == 401
        assert "refused the code (invalid_grant)" in replayed.json()["detail"]


async def test_an_answer_that_names_another_issuer_is_refused(door: Rest) -> None:
    async with opened_browser(door) as browser:
        address = await browser.at_provider(await browser.begin())
        mixed_up = address.replace("iss=http", "iss=https")
        refused = await browser.client.get(mixed_up)
        assert "not from" in refused.json()["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "jobs",
        "",
        "/a\r\nb",
        "/ä",
        "/" * 2,
    ],
)
async def test_nobody_is_sent_elsewhere_after_the_login(door: Rest, path: str) -> None:
    with pytest.raises(Problem, match="return_to is a path of this server"):
        local_path(path)
    async with opened_browser(door) as browser:
        refused = await browser.begin(return_to=path)
        assert (refused.status_code, refused.json()["code"]) == (400, "bad-request")


async def test_a_tenant_comes_from_its_claim_or_nobody_gets_in(make_door: Callable[..., Rest]) -> None:
    door = make_door(tenant_claim="org")
    async with opened_browser(door) as browser:
        assert (await browser.log_in()).status_code == 303
        assert (await browser.client.get("/me")).json()["tenant"] == "acme"
    async with opened_browser(door) as browser:
        refused = await browser.log_in("without a tenant")
        assert (refused.status_code, "the claim org" in refused.text) == (401, True)


async def test_a_wrong_secret_or_issuer_is_said(make_door: Callable[..., Rest], issuer: str) -> None:
    async with opened_browser(make_door(client_secret=SECRET[1:])) as browser:
        refused = await browser.log_in()
        assert (refused.status_code, "invalid_client" in refused.text) == (401, True)
    async with opened_browser(make_door(issuer=f"{issuer}/other")) as browser:
        wrong = await browser.begin()
        assert (wrong.status_code, wrong.json()["code"]) == (503, "provider-unavailable")
        assert f"it calls itself '{issuer}'" in wrong.json()["detail"]
    async with opened_browser(make_door(issuer="http://127.0.0.1:9")) as browser:
        away = await browser.begin()
        assert (away.status_code, away.json()["code"]) == (503, "provider-unavailable")
        assert away.headers["retry-after"] == "5"


async def test_clocks_may_differ_a_little(make_door: Callable[..., Rest]) -> None:
    for seconds, status in ((-25, 303), (25, 303), (-60, 401), (360, 401)):
        async with opened_browser(make_door(clock=lambda late=seconds: time.time() + late)) as browser:
            assert (await browser.log_in()).status_code == status, seconds


async def test_a_session_ends_by_itself(door: Rest) -> None:
    async with opened_browser(door) as browser:
        await browser.log_in()
        assert (await browser.client.get("/me")).status_code == 200
        await door.store.execute("UPDATE {s}.sessions SET seen_at = $1", await clock(door) - timedelta(hours=9))
        assert (await browser.client.get("/me")).status_code == 401


async def clock(door: Rest) -> Any:  # noqa: ANN401 - a datetime
    return await door.store.value("SELECT now()")


async def test_a_provider_that_changes_its_keys_is_believed(make_door: Callable[..., Rest], issuer: str) -> None:
    door = make_door()
    async with httpx.AsyncClient(timeout=PATIENCE) as there:
        await there.get(f"{issuer}/rotate")
    async with opened_browser(door) as browser:
        assert (await browser.log_in()).status_code == 303


async def test_a_server_without_a_provider_says_so(rest: Rest) -> None:
    async with rest.client(None) as client:
        assert (await client.get("/auth/logins")).json() == {"token": True, "oidc": None}
        for path in ("/auth/login/oidc", "/auth/callback"):
            missing = await client.get(path)
            assert (missing.status_code, missing.json()["code"]) == (404, "not-found")


async def test_a_login_without_sessions_is_a_mistake_of_the_setup(rest: Rest, issuer: str) -> None:
    login = OIDCLogin(issuer=issuer, client_id=CLIENT)
    with pytest.raises(ConfigurationError, match="SessionAuth"):
        RowlockAPI(rest.app, oidc=login)
    mistakes: list[dict[str, Any]] = [
        {"issuer": "http://id.example"},
        {"scopes": ["profile"]},
        {"redirect_url": "http://jobs.example/cb"},
    ]
    for wrong in mistakes:
        with pytest.raises(ConfigurationError):
            OIDCLogin(**({"issuer": issuer, "client_id": CLIENT} | wrong))


def test_settings_describe_a_login() -> None:
    environ = {
        "ROWLOCK_OIDC_ISSUER": "https://id.example/realms/a",
        "ROWLOCK_OIDC_ROLES": "admins=platform_admin, cn=staff=operator",
        "ROWLOCK_OIDC_CLIENT_SECRET": "hush",
    }
    settings = Settings.from_env(environ)
    assert settings.oidc_roles == (("admins", "platform_admin"), ("cn=staff", "operator"))
    assert "hush" not in repr(settings)
    login = configured_login(settings)
    assert login is not None
    assert login.issuer == "https://id.example/realms/a"
    assert configured_login(Settings()) is None
    with pytest.raises(ConfigurationError, match="admins=platform_admin"):
        Settings.from_env({"ROWLOCK_OIDC_ROLES": "admins"})


@pytest.mark.parametrize("cookie", ["", "x", "e30=", "WyJhIl0=", "eyJzdGF0ZSI6IDF9"])
def test_a_damaged_cookie_is_no_attempt(cookie: str) -> None:
    assert LoginAttempt.parse(cookie) is None
    kept = LoginAttempt.begin("/jobs")
    assert LoginAttempt.parse(kept.cookie) == kept


async def test_a_logout_works_while_the_provider_does_not_answer() -> None:
    login = OIDCLogin(issuer="http://127.0.0.1:1/nobody", client_id=CLIENT)
    assert await login.logout_address("https://door/") is None


async def test_me_says_who_logged_in_at_the_provider(door: Rest) -> None:
    async with opened_browser(door) as browser:
        await browser.log_in()
        assert (await browser.client.get("/me")).json()["login"] == "oidc"
    token = await door.app.tokens.create("ci", roles=["user"])
    async with door.client(None, base=DOOR) as client:
        bearer = {"Authorization": f"Bearer {token.text}"}
        assert (await client.get("/me", headers=bearer)).json()["login"] == "token"
