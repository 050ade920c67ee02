"""Authenticators over real requests: tokens, JWT, sessions, the host's function, and nobody."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from rowlock import ConfigurationError, Principal, Rowlock
from rowlock.api.auth import (
    JWTAuth,
    SessionAuth,
    TokenAuth,
    TrustedAuth,
    bind_allowed,
    close_session,
    open_session,
    require_bind,
)
from rowlock.api.auth import jwt as jwt_auth
from rowlock.errors import CrossSite, NotAuthenticated, TooManyAttempts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.responses import Response

ISSUER, AUDIENCE = "https://id.example", "rowlock"
KEYS: dict[str, Any] = {
    "RS256": RSAKey.generate_key(2048, {"kid": "r"}),
    "ES256": ECKey.generate_key("P-256", {"kid": "e"}),
    "EdDSA": OKPKey.generate_key("Ed25519", {"kid": "o"}),
}
SAME = {"sec-fetch-site": "same-origin"}


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url) as rowlock:
        yield rowlock


class Door:
    """A small application behind some authenticators."""

    def __init__(self, app: Rowlock, *chain: Any) -> None:  # noqa: ANN401 - authenticators
        self.app, self.chain = app, chain
        paths = {
            "/me": (self.me, ["GET", "POST"]),
            "/login": (self.login, ["POST"]),
            "/logout": (self.logout, ["POST"]),
        }
        served = Starlette(routes=[Route(path, self.told(do), methods=how) for path, (do, how) in paths.items()])
        transport = httpx.ASGITransport(served, client=("192.0.2.1", 9))
        self.client = httpx.AsyncClient(transport=transport, base_url="https://jobs.example")

    def told(self, do: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            try:
                response: Response = await do(request)
            except TooManyAttempts as error:
                return JSONResponse({"why": str(error)}, 429, {"retry-after": str(error.retry_after)})
            except NotAuthenticated as error:
                return JSONResponse({"why": str(error)}, 401)
            except CrossSite as error:
                return JSONResponse({"why": str(error)}, 403)
            return response

        return answer

    async def me(self, request: Request) -> Response:
        for each in self.chain:
            who = await each.authenticate(request)
            if who is not None:
                return JSONResponse({"subject": who.subject, "tenant": who.tenant, "may": sorted(who.permissions)})
        return JSONResponse({"why": "nobody"}, 401)

    async def login(self, request: Request) -> Response:
        response = JSONResponse({})
        await open_session(self.app, request, (await request.json())["token"], response)
        return response

    async def logout(self, request: Request) -> Response:
        response = JSONResponse({})
        await close_session(self.app, request, response)
        return response

    async def ask(self, bearer: str | None = None, method: str = "GET", **headers: str) -> httpx.Response:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.request(
            method, "/me", headers=given | ({} if bearer is None else {"authorization": f"Bearer {bearer}"})
        )


async def test_a_token_says_who_asks(app: Rowlock) -> None:
    made = await app.tokens.create("ci", roles=["user"], tenant="acme")
    door = Door(app, TokenAuth(app))
    answer = await door.ask(made.text)
    assert answer.json() == {"subject": "token:ci", "tenant": "acme", "may": ["jobs:read", "jobs:submit"]}
    assert (await door.ask()).json() == {"why": "nobody"}
    assert (await door.ask("somebody.elses.bearer")).json() == {"why": "nobody"}
    await app.tokens.revoke(made.token.id)
    for _ in range(10):
        assert (await door.ask(made.text)).status_code == 401
    late = await door.ask(made.text)
    assert (late.status_code, int(late.headers["retry-after"]) <= 300) == (429, True)


# --- sessions --------------------------------------------------------------------------------------------------------


async def test_a_browser_logs_in_and_out(app: Rowlock) -> None:
    made = await app.tokens.create("ada", roles=["user"], subject="ada")
    door = Door(app, SessionAuth(app))
    answer = await door.client.post("/login", json={"token": made.text}, headers=SAME)
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("__host-rowlock=")
    assert all(part in cookie for part in ("httponly", "secure", "path=/", "samesite=lax", "max-age=86400"))
    assert "domain" not in cookie
    assert made.text not in cookie
    assert (await door.ask()).json()["subject"] == "ada"
    stolen = dict(door.client.cookies)
    await door.client.post("/logout", headers=SAME)
    assert dict(door.client.cookies) == {}
    door.client.cookies.update(stolen)
    assert (await door.ask()).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "same-origin", "content_type": "application/json"}, 200),
        ({"origin": "https://jobs.example"}, 200),
        ({}, 403),
        ({"sec_fetch_site": "cross-site", "origin": "https://jobs.example"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://jobs.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "same-origin", "content_type": "text/plain; charset=utf-8"}, 403),
    ],
)
async def test_orders_with_a_cookie_come_from_our_own_pages(app: Rowlock, headers: dict[str, str], status: int) -> None:
    made = await app.tokens.create("ada", roles=["user"])
    door = Door(app, TokenAuth(app), SessionAuth(app))
    await door.client.post("/login", json={"token": made.text}, headers=SAME)
    assert (await door.ask(method="POST", **headers)).status_code == status
    assert (await door.ask(method="GET", **headers)).status_code == 200
    assert (await door.ask(made.text, method="POST", **headers)).status_code == 200  # no cookie, no other page


async def test_logging_in_is_for_our_own_pages_and_counted(app: Rowlock) -> None:
    door = Door(app, SessionAuth(app))
    other = await door.client.post("/login", json={"token": "x"}, headers={"origin": "https://evil.example"})
    assert other.status_code == 403
    made = await app.tokens.create("ada", roles=["user"])
    await app.tokens.revoke(made.token.id)
    tries = [await door.client.post("/login", json={"token": made.text}, headers=SAME) for _ in range(11)]
    assert [answer.status_code for answer in tries] == [401] * 10 + [429]


# --- JWT -------------------------------------------------------------------------------------------------------------


class Provider:
    """An identity provider: signs, and publishes keys."""

    def __init__(self, *algorithms: str) -> None:
        self.published = [KEYS[name] for name in algorithms]
        self.fetches = 0
        self.threads: set[int] = set()
        self.down = False

    def fetch(self, _url: str) -> bytes:
        self.fetches += 1
        self.threads.add(threading.get_ident())
        if self.down:
            message = "no route"
            raise OSError(message)
        return json.dumps(KeySet(list(self.published)).as_dict(private=False)).encode()

    def sign(self, algorithm: str = "RS256", key: Any = None, **claims: Any) -> str:  # noqa: ANN401 - a key, JSON
        key = key or KEYS[algorithm]
        usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": int(time.time()) + 60}
        said = {name: value for name, value in (usual | claims).items() if value is not None}
        header = {"alg": algorithm, "kid": key.kid}
        with warnings.catch_warnings(action="ignore"):
            return jwt.encode(header, said, key, algorithms=[algorithm])


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    made = Provider(*KEYS)
    monkeypatch.setattr(jwt_auth, "_download", made.fetch)
    return made


def auth(app: Rowlock, **more: Any) -> JWTAuth:  # noqa: ANN401 - JWTAuth's
    says = {"issuer": ISSUER, "audience": AUDIENCE, "jwks_url": "https://id.example/jwks"}
    return JWTAuth(app, **(says | more))


@pytest.mark.parametrize("algorithm", KEYS)
async def test_a_signature_of_the_issuer_says_who_asks(app: Rowlock, provider: Provider, algorithm: str) -> None:
    door = Door(app, auth(app, roles={"ops": "operator"}, tenant_claim="org", roles_claim="realm.roles"))
    text = provider.sign(algorithm, org="acme", realm={"roles": ["ops", "platform_admin"]})
    await app.roles.set("auditor", ["audit:read"])
    await app.roles.grant("ada", "auditor")
    answer = (await door.ask(text)).json()
    assert (answer["subject"], answer["tenant"]) == ("ada", "acme")
    assert {"jobs:cancel", "audit:read"} <= set(answer["may"])
    assert "tokens:manage" not in answer["may"]  # only roles that are mapped count
    assert threading.get_ident() not in provider.threads


NOW = int(time.time())


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({}, 200),
        ({"aud": ["other", AUDIENCE]}, 200),
        ({"exp": NOW - jwt_auth.LEEWAY + 1}, 200),  # clocks differ
        ({"exp": NOW - jwt_auth.LEEWAY}, 401),
        ({"nbf": NOW + jwt_auth.LEEWAY, "exp": NOW + 600}, 200),
        ({"nbf": NOW + jwt_auth.LEEWAY + 1, "exp": NOW + 600}, 401),
        ({"exp": NOW - 3600}, 401),
        ({"nbf": NOW + 3600, "exp": NOW + 7200}, 401),
        ({"exp": None}, 401),
        ({"aud": "other"}, 401),
        ({"aud": None}, 401),
        ({"iss": "https://evil.example"}, 401),
        ({"iss": None}, 401),
        ({"sub": None}, 401),
        ({"sub": 7}, 401),
    ],
)
async def test_the_claims_must_hold(app: Rowlock, provider: Provider, claims: dict[str, Any], status: int) -> None:
    answer = await Door(app, auth(app, clock=lambda: NOW)).ask(provider.sign(**claims))
    assert answer.status_code == status, answer.json()


async def test_a_bearer_without_its_tenant_is_nobodys(app: Rowlock, provider: Provider) -> None:
    assert (await Door(app, auth(app, tenant_claim="org")).ask(provider.sign())).status_code == 401


def shared(text: str, secret: bytes) -> str:
    """The same claims, signed with the public key as if it were a shared secret."""
    header = encoded(b'{"alg": "HS256", "kid": "r"}')
    body = f"{header}.{text.split('.')[1]}"
    return f"{body}.{encoded(hmac.digest(secret, body.encode(), 'sha256'))}"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


async def test_forged_signatures_are_refused(app: Rowlock, provider: Provider) -> None:
    door = Door(app, auth(app))
    public = KEYS["RS256"].as_pem(private=False)
    forged = [
        provider.sign(key=RSAKey.generate_key(2048, {"kid": "r"})),
        shared(provider.sign(), public),
        provider.sign()[:-4] + "AAAA",
        ".".join(["eyJhbGciOiJub25lIn0", provider.sign().split(".")[1], ""]),
    ]
    assert [(await door.ask(text)).status_code for text in forged] == [401] * 4
    assert (await door.ask(provider.sign())).status_code == 200


DEEP = b"[" * 20_000 + b"]" * 20_000
HEADER = b'{"alg": "RS256", "kid": "r"}'
CLAIMS = b'{"iss": "%s"}' % ISSUER.encode()


@pytest.mark.parametrize(
    ("header", "payload"),
    [
        (HEADER, b'{"iss": "%s", "a": %s}' % (ISSUER.encode(), DEEP)),
        (b'{"alg": "RS256", "kid": "r", "a": %s}' % DEEP, CLAIMS),
        (b"[]", CLAIMS),
        (b"null", CLAIMS),
        (b'{"alg": ["RS256"], "kid": "r"}', CLAIMS),
        (b'{"alg": "RS256", "kid": {}}', CLAIMS),
        (b'{"alg": "RS256", "kid": "r", "crit": [{}]}', CLAIMS),
        (HEADER, b'{"iss": "%s", "exp": %s}' % (ISSUER.encode(), b"9" * 5000)),
        (HEADER, b'{"iss": "%s", "exp": 1e999}' % ISSUER.encode()),
        (HEADER, b"\xff\xfe"),
        (HEADER, b"[]"),
    ],
)
async def test_a_forged_token_is_refused_whatever_is_in_it(
    app: Rowlock, provider: Provider, header: bytes, payload: bytes
) -> None:
    assert provider.fetches == 0
    text = f"{encoded(header)}.{encoded(payload)}.{encoded(bytes(256))}"
    assert (await Door(app, auth(app)).ask(text)).status_code == 401


async def test_keys_are_kept_and_looked_at_again_when_one_is_missing(app: Rowlock, provider: Provider) -> None:
    provider.published = [KEYS["RS256"]]
    checks = auth(app)
    door = Door(app, checks)
    for _ in range(3):
        assert (await door.ask(provider.sign())).status_code == 200
    assert provider.fetches == 1
    provider.published.append(KEYS["ES256"])
    text = provider.sign("ES256")
    assert (await door.ask(text)).status_code == 401  # asked a moment ago: nobody makes us hammer the provider
    assert provider.fetches == 1
    checks._keys._tried -= 31
    assert (await door.ask(text)).status_code == 200
    assert provider.fetches == 2
    provider.down = True
    checks._keys._fetched -= 3600
    checks._keys._tried -= 3600
    assert (await door.ask(text)).status_code == 200  # the keys we have stay good
    assert provider.fetches == 3


async def test_a_key_that_was_withdrawn_counts_for_ten_minutes_at_most(app: Rowlock, provider: Provider) -> None:
    provider.published = [KEYS["RS256"]]
    checks = auth(app)
    door, old = Door(app, checks), provider.sign()
    assert (await door.ask(old)).status_code == 200
    provider.published = [KEYS["ES256"]]
    checks._keys._fetched -= 601
    checks._keys._tried -= 601
    assert (await door.ask(old)).status_code == 401
    assert (await door.ask(provider.sign("ES256"))).status_code == 200


async def test_without_keys_nobody_is_let_in(app: Rowlock, provider: Provider) -> None:
    provider.down = True
    answer = await Door(app, auth(app)).ask(provider.sign())
    assert (answer.status_code, "cannot be fetched" in answer.json()["why"]) == (401, True)


def test_keys_come_over_tls(app: Rowlock) -> None:
    with pytest.raises(ConfigurationError, match="https"):
        auth(app, jwks_url="http://id.example/jwks")
    auth(app, jwks_url="http://127.0.0.1:8000/jwks")


# --- the host's own, and nobody --------------------------------------------------------------------------------------


async def test_a_host_knows_its_users(app: Rowlock) -> None:
    made = await app.tokens.create("ci", roles=["user"])

    async def asked(request: Any) -> Principal | None:  # noqa: ANN401 - a request
        user = request.headers.get("x-user")
        return None if user is None else await app.identity.of(user, roles=["operator"], tenant="acme")

    def plain(request: Any) -> Principal | None:  # noqa: ANN401 - a request
        return Principal("sync") if "x-sync" in request.headers else None

    door = Door(app, TokenAuth(app), TrustedAuth(asked), TrustedAuth(plain))
    assert (await door.ask(x_user="ada")).json()["subject"] == "ada"
    assert (await door.ask(x_sync="1")).json()["subject"] == "sync"
    assert (await door.ask(made.text, x_user="ada")).json()["subject"] == "token:ci"
    assert (await door.ask()).status_code == 401


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - that is the point
        ("::", False),
        ("192.0.2.7", False),
        ("jobs.example", False),
        ("", False),
    ],
)
def test_without_authentication_only_this_machine_is_served(host: str, loopback: bool) -> None:
    assert bind_allowed(host, None) is loopback
    assert bind_allowed(host, object())
    assert bind_allowed(host, None, insecure=True)
    if not loopback:
        with pytest.raises(ConfigurationError, match="no authentication is configured"):
            require_bind(host, None)
