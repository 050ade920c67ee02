"""Without authentication: this machine, directly, with the token of this start; and with fewer rights."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from rowlock.api import RowlockAPI
from rowlock.api.auth import WITHHELD
from rowlock.api.auth.loopback import Loopback
from rowlock.model.access import ALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.api.conftest import Rest

JOB = {"kind": "greet", "args": {"name": "x"}}


def local(rest: Rest) -> Loopback:
    assert rest.api.loopback is not None
    return rest.api.loopback


def asking(rest: Rest, token: str | None = None, client: str = "127.0.0.1", **more: Any) -> httpx.AsyncClient:  # noqa: ANN401 - httpx's
    token = local(rest).token if token is None else token
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(rest.api.asgi, client=(client, 1)),
        base_url="http://localhost:8000/api/v1",
        headers={"Authorization": f"Bearer {token}"} if token else {},
        **more,
    )


@pytest.fixture
def rest(make_rest: Callable[..., Rest]) -> Rest:
    return make_rest(auth=None)


ATTACKS: list[tuple[str, dict[str, str], str]] = [
    *(
        ("127.0.0.1", {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}, "bad-request")
        for host in (*(f"a{mark}b.evil.example" for mark in '{}`"\\^|['), "user@localhost", "", "a b", "localhost:x")
    ),
    ("127.0.0.1", {"Host": "evil.example", "Sec-Fetch-Site": "same-origin"}, "no-auth-configured"),
    ("127.0.0.1", {"Host": "localhost.evil.example"}, "no-auth-configured"),
    ("127.0.0.1", {"Host": "0.0.0.0"}, "no-auth-configured"),  # noqa: S104 - a name to refuse
    ("10.0.0.7", {}, "no-auth-configured"),
    *(
        ("127.0.0.1", {name: "1.2.3.4"}, "no-auth-configured")
        for name in (
            "Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Anything",
            "X-Real-IP", "CF-Connecting-IP", "CF-Ray", "True-Client-IP", "X-Client-IP", "X-Envoy-External-Address",
        )
    ),
    ("127.0.0.1", {"Sec-Fetch-Site": "cross-site"}, "cross-site"),
    ("127.0.0.1", {"Sec-Fetch-Site": "same-site"}, "cross-site"),
    ("127.0.0.1", {"Origin": "http://evil.example"}, "cross-site"),
    ("127.0.0.1", {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, "cross-site"),
    ("127.0.0.1", {"Origin": "http://localhost:3000"}, "cross-site"),
    ("127.0.0.1", {"Origin": "https://localhost:8000"}, "cross-site"),
    ("127.0.0.1", {"Origin": "null"}, "cross-site"),
    ("127.0.0.1", {"Origin": "http://a{b"}, "cross-site"),
]  # fmt: skip


async def test_no_foreign_host_page_machine_or_proxy_is_served_even_with_the_token(rest: Rest) -> None:
    for client, headers, code in ATTACKS:
        async with asking(rest, client=client) as asks:
            answer = await asks.post("/jobs", json=JOB, headers=headers)
            assert answer.json()["code"] == code, (headers, answer.text)
            assert answer.status_code in (400, 403)
            if code != "cross-site":
                assert (await asks.get("/kinds", headers=headers)).json()["code"] == code
    assert await rest.store.value("SELECT count(*) FROM {s}.jobs") == 0


async def test_a_request_with_two_hosts_is_served_by_neither(rest: Rest) -> None:
    async with asking(rest) as asks:
        request = asks.build_request("GET", "/kinds")
        request.headers = httpx.Headers([*request.headers.raw, (b"Host", b"evil.example")])
        assert (await asks.send(request)).json()["code"] == "bad-request"


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        ("127.0.0.1", {}),
        ("::1", {"Host": "[::1]:8000"}),
        ("127.0.0.1", {"Host": "LOCALHOST.:9"}),
        ("127.0.0.1", {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8000"}),
        ("127.0.0.1", {"Sec-Fetch-Site": "none"}),
        ("127.0.0.1", {"Origin": "http://localhost:8000"}),
    ],
)
async def test_this_machine_is_served_with_the_token(rest: Rest, client: str, headers: dict[str, str]) -> None:
    async with asking(rest, client=client) as asks:
        assert (await asks.post("/jobs", json=JOB, headers=headers)).status_code == 202


async def test_without_the_token_the_answer_says_how_to_get_it(rest: Rest) -> None:
    for token in ("", "wrong", "rlk_nonsense", "x" * 5000):
        async with asking(rest, token) as asks:
            answer = await asks.get("/jobs")
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
            assert "link that the server printed" in answer.json()["detail"]
            assert "ROWLOCK_SERVE_TOKEN" in answer.json()["detail"]
            for path in ("/healthz", "/readyz", "/readyz/deploy"):
                assert (await asks.get(f"http://localhost:8000{path}")).status_code == 200


async def test_the_link_logs_a_browser_in_and_takes_the_token_out_of_the_address(rest: Rest) -> None:
    async with asking(rest, "") as browser:
        assert (await browser.get("/me")).status_code == 401
        answer = await browser.get("/auth/local", params={"token": local(rest).token})
        assert (answer.status_code, answer.headers["location"]) == (303, "../../../")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("rowlock_local_8000=")
        assert all(part in cookie.lower() for part in ("httponly", "samesite=lax", "path=/"))
        assert local(rest).token not in cookie
        assert (await browser.get("/me")).json()["subject"] == "loopback"
        same = {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8000"}
        assert (await browser.post("/jobs", json=JOB, headers=same)).status_code == 202
        other = {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:3000"}
        assert (await browser.post("/jobs", json=JOB, headers=other)).status_code == 403
        assert (await browser.get("/me", headers={"Host": "evil.example:8000"})).status_code == 403
    async with asking(rest, "") as browser:
        for token in ("", "wrong"):
            assert (await browser.get("/auth/local", params={"token": token})).status_code == 401
        rebound = {"Host": "evil.example"}
        params = {"token": local(rest).token}
        assert (await browser.get("/auth/local", params=params, headers=rebound)).status_code == 403
        assert not browser.cookies


async def test_a_page_of_another_origin_may_link_to_an_answer_but_not_fetch_or_embed_it(rest: Rest) -> None:
    async with asking(rest, "") as browser:
        await browser.get("/auth/local", params={"token": local(rest).token})
        for site in ("same-site", "cross-site"):
            for use in ("empty", "iframe", "script", "image", "object"):
                sent = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": use}
                for path in ("/jobs", "/events"):
                    assert (await browser.get(path, headers=sent)).json()["code"] == "cross-site", sent
            linked = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "document"}
            assert (await browser.get("/jobs", headers=linked)).status_code == 200
        own = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"}
        assert (await browser.get("/jobs", headers=own)).status_code == 200
        # A page that was given the token is trusted with it.
        given = {
            "Authorization": f"Bearer {local(rest).token}",
            "Sec-Fetch-Site": "same-site",
            "Sec-Fetch-Dest": "empty",
        }
        assert (await browser.get("/jobs", headers=given)).status_code == 200


async def test_a_rebound_name_does_not_reach_the_log_in(rest: Rest) -> None:
    rebound = {"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}
    async with asking(rest, "") as browser:
        for path, body in (("/auth/login", {"token": "rlk_guess"}), ("/auth/logout", {})):
            answer = await browser.post(path, json=body, headers=rebound)
            assert (answer.status_code, answer.json()["code"]) == (403, "no-auth-configured")
    assert await rest.store.value("SELECT count(*) FROM {s}.login_failures") == 0


async def test_every_start_has_a_token_of_its_own_unless_the_operator_chose_one(make_rest: Callable[..., Rest]) -> None:
    one, other = make_rest(auth=None), make_rest(auth=None)
    assert local(one).token != local(other).token
    async with asking(one, local(other).token) as asks:
        assert (await asks.get("/me")).status_code == 401
    chosen = make_rest(auth=Loopback("a-token-of-the-operator"))
    async with asking(chosen, "a-token-of-the-operator") as asks:
        assert (await asks.get("/me")).status_code == 200


async def test_secrets_and_lasting_rights_need_authentication(rest: Rest) -> None:
    async with asking(rest) as asks:
        held = set((await asks.get("/me")).json()["permissions"])
        assert held == {str(each) for each in ALL - WITHHELD}
        made = await asks.post("/tokens", json={"name": "x", "roles": ["platform_admin"]})
        assert (made.status_code, made.json()["permission"]) == (403, "tokens:manage")
        assert (await asks.get("/tokens")).status_code == 403
        secret = await asks.post("/jobs", json={"kind": "login", "args": {"user": "ada", "password": "swordfish"}})
        assert secret.status_code == 202, secret.text
        assert "swordfish" not in (await asks.get(f"/jobs/{secret.json()['id']}")).text
    assert await rest.store.value("SELECT count(*) FROM {s}.tokens") == 0


async def test_a_host_is_told_once_how_to_get_in(rest: Rest, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with asking(rest, "") as asks:
        for _ in range(2):
            await asks.get("/me")
    told = [record.getMessage() for record in caplog.records if local(rest).token in record.getMessage()]
    assert told == [
        "no authentication is configured: this machine only is served, with the header Authorization: Bearer "
        + local(rest).token
    ]
    caplog.clear()
    chosen = RowlockAPI(rest.app, auth=Loopback("a-token-of-the-operator"))
    transport = httpx.ASGITransport(chosen.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1") as asks:
        await asks.get("/me")
    assert "a-token-of-the-operator" not in caplog.text
    assert "ROWLOCK_SERVE_TOKEN" in caplog.text


async def test_with_authentication_there_is_no_link(make_rest: Callable[..., Rest]) -> None:
    rest = make_rest()
    async with rest.client() as client:
        answer = await client.get("/auth/local", params={"token": "x"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
