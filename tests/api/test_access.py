"""What is somebody else's is 404, who may only read changes nothing; tokens, sessions, the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import rate

from rowlock import Rate
from rowlock.api import RowlockAPI
from rowlock.api.auth import SessionAuth, TokenAuth
from rowlock.api.routing import SAFE, Route
from rowlock.api.streaming import sse
from rowlock.model import ids
from rowlock.model.access import ALL, Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx
    from tests.api.conftest import Rest


BODIES: dict[str, object] = {
    "submit_job": {"kind": "greet", "args": {"name": "x"}},
    "change_job": {"priority": 3},
    "order_jobs": {"action": "cancel", "search": "", "filter_hash": "x", "expected_max": 1},
    "approve_job": {},
    "reject_job": {},
    "cancel_job": {},
    "retry_job": {},
    "cancel_running_job": {},
    "reprioritise_job": {"priority": 3},
    "cancel_workflow": {},
    "retry_workflow": {"from_step": "pay"},
    "send_signal": {"payload": {"ok": True}},
    "create_lane": {"name": "new"},
    "change_lane": {"slots": 3},
    "change_gate": {"limit": 3},
    "set_rate": {"amount": 3},
    "pause_rate": {"lasting": 3},
    "add_rule": {"kind": "pay"},
    "set_retention": {"keep": "3d"},
    "create_view": {"name": "mine"},
    "change_view": {"query": "state:failed"},
    "create_webhook": {"url": "https://example.com/"},
    "change_webhook": {"enabled": False},
    "rotate_webhook": {},
    "log_in": {"token": "nonsense"},
    "create_token": {"name": "ci", "permissions": ["jobs:read"]},
    "grant_role": {"subject": "bob"},
    "create_schedule": {"name": "s", "kind": "greet", "args": {"name": "x"}, "every": 60},
    "change_schedule": {"overlap": "skip"},
    "backfill_schedule": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"},
}
"""A body that fits, where a route takes one."""
SESSIONS = {"log_in", "log_out", "log_in_by_link", "begin_oidc_login", "finish_oidc_login", "log_out_of_oidc"}
"""Whoever comes may try; what they get is worth what their token is."""


def entries_of(api: RowlockAPI) -> list[Route]:
    """Every route for principals; those for embed tokens are in tests/api/routes/test_embed.py."""
    routes = [route for route in api.router.routes if isinstance(route, Route) and route.methods != {"HEAD"}]
    return [route for route in routes if not (route.openapi_extra or {}).get("x-embed")]


def routes_of(api: RowlockAPI) -> dict[str, tuple[str, str]]:
    """Operation to method and path."""
    return {str(route.operation_id): (next(iter(route.methods or ())), route.path) for route in entries_of(api)}


async def ask(client: httpx.AsyncClient, rest: Rest, operation: str, **known: str) -> httpx.Response:
    """The operation on things that are there: a fresh job of the asker, a lane, a worker."""
    (method, path), body = routes_of(rest.api)[operation], BODIES.get(operation)
    names = {
        "name": "front",
        "kind": "greet",
        "worker": "w",
        "token_id": "none",
        "role": "operator",
        "subject": "bob",
        "operation_id": "1",
        "rule_id": "1",
        "view_id": "1",
        "webhook_id": "1",
        "workflow_id": ids.encode_workflow(1),
        "key": "org:7",
        "fingerprint": "f00d",
        **known,
    }
    headers = {"Sec-Fetch-Site": "same-origin"} | (
        {"If-Match": "*"} if operation in ("change_lane", "change_job", "change_schedule") else {}
    )
    query = {"id": names["job_id"]} if operation == "explain_jobs" else None
    url = path.replace(":path}", "}").format(**names)
    return await client.request(method, url, params=query, json=body, headers=headers)


async def seeded(rest: Rest, **options: Any) -> str:  # noqa: ANN401 - of a submission
    rest.api.stream_seconds = -sse.LIFETIME
    await rest.store.worker()
    await rest.app.lanes.create("front")
    await rest.app.schedules.create("front", "greet", every="1h", args={"name": "x"})
    await rest.store.gate("org:7")
    await rate(rest.store, "org:7", Rate(1))
    await rest.store.execute(
        "INSERT INTO {s}.failure_groups (fingerprint, tenant, kind, first_seen, last_seen) "
        "VALUES ('f00d', '', 'greet', now(), now())"
    )
    await rest.store.execute(
        "INSERT INTO {s}.webhooks (url, kinds, states) VALUES ('https://example.com/', '{none}', '{failed}')"
    )
    options = {"kind": "pay", "args": {"amount": 1}, **options}
    job = await rest.submit(**options)
    await rest.store.connection.execute("SELECT rowlock.workflow_adopt($1)", ids.decode(job["id"]))
    # Ended, so that a stream of it ends too; that of everything has no time to live.
    await rest.store.stop(ids.decode(job["id"]))
    return str(job["id"])


@pytest.mark.parametrize("tenant", ["b", None])
async def test_a_job_of_another_tenant_does_not_exist(rest: Rest, tenant: str | None) -> None:
    job = await seeded(rest, tenant="a")
    about_one = [name for name, (_, path) in routes_of(rest.api).items() if path.startswith("/jobs/{job_id}")]
    assert len(about_one) > 8
    async with rest.knows(Principal("bo", tenant, permissions=ALL - {Permission.READ_ALL})) as client:
        for operation in about_one:
            answer = await ask(client, rest, operation, job_id=job)
            assert (answer.status_code, answer.json()["code"]) == (404, "job-not-found"), (operation, answer.text)
        whole = [name for name, (_, path) in routes_of(rest.api).items() if "{workflow_id}" in path]
        assert len(whole) == 3
        for operation in whole:
            answer = await ask(client, rest, operation)
            assert (answer.status_code, answer.json()["code"]) == (404, "workflow-not-found"), (operation, answer.text)
        assert (await client.get("/workflows")).json()["items"] == []
        assert (await client.get("/jobs")).json()["items"] == []
        assert (await client.get("/jobs", params={"q": f"id:{job}"})).json()["items"] == []


async def test_who_may_only_read_changes_nothing(rest: Rest) -> None:
    job = await seeded(rest)
    picture = "SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {s}.%s t"
    # The audit has a line for each refusal.
    tables = ("jobs", "lanes", "workers", "tokens", "job_acts", "roles", "job_keys", "gates", "rates", "retention")
    before = [await rest.store.value(picture % table) for table in tables]
    reading = {Permission.READ, Permission.WORKERS_VIEW, Permission.AUDIT_READ}
    async with rest.knows(Principal("eve", permissions=frozenset(reading | {Permission.READ_ALL}))) as client:
        for operation, (method, _) in routes_of(rest.api).items():
            if method not in SAFE and operation not in SESSIONS and not operation.endswith("_view"):  # of one's own
                answer = await ask(client, rest, operation, job_id=job)
                expected = (404, "operation-not-found") if operation == "cancel_operation" else (403, "forbidden")
                assert (answer.status_code, answer.json()["code"]) == expected, operation
    assert [await rest.store.value(picture % table) for table in tables] == before


async def test_a_read_only_door_refuses_every_change_of_everybody(rest: Rest) -> None:
    job = await seeded(rest)
    rest.api.read_only = True
    async with rest.client() as client:
        for operation, (method, _) in routes_of(rest.api).items():
            answer = await ask(client, rest, operation, job_id=job)
            if method in SAFE:
                assert answer.is_success or "operation" in operation or operation in SESSIONS, (operation, answer.text)
            elif operation not in SESSIONS | {"cancel_operation"}:
                assert (answer.status_code, answer.json()["code"]) == (403, "read-only"), operation


async def test_tokens_are_shown_once_and_what_was_done_is_written_down(rest: Rest) -> None:
    async with rest.client() as client:
        made = await client.post("/tokens", json={"name": "ci", "permissions": ["jobs:read"], "expires_in": 60})
        assert made.status_code == 201, made.text
        text = made.json()["text"]
        listed = await client.get("/tokens")
        assert text not in listed.text
        assert [token["name"] for token in listed.json()["items"]] == ["ci"]
        revoked = await client.delete(f"/tokens/{made.json()['id']}")
        assert revoked.json()["revoked_at"] is not None
        unknown = await client.delete("/tokens/nothing")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "token-not-found")
        audit = (await client.get("/audit", params={"limit": 1})).json()
        (entry,) = audit["items"]
        assert (entry["action"], entry["subject"]) == ("token.revoke", "root")
        assert entry["request_id"] == revoked.headers["x-request-id"]
        older = (await client.get("/audit", params={"limit": 1, "cursor": audit["next_cursor"]})).json()
        assert [entry["action"] for entry in older["items"]] == ["token.create"]
        assert text not in (await client.get("/audit")).text
        broken = await client.get("/audit", params={"cursor": "x"})
        assert (broken.status_code, broken.json()["code"]) == (400, "invalid-cursor")


async def test_who_may_not_give_an_order_may_not_stop_one_either(rest: Rest) -> None:
    for _ in range(3):
        await rest.submit("pay", args={"amount": 1})
    async with rest.client() as client:
        order = {"action": "cancel", "search": "kind:pay"}
        seen = await client.post("/jobs/bulk", json=order | {"dry_run": True})
        assert (seen.status_code, seen.json()["count"], seen.json()["id"]) == (200, {"value": 3, "exact": True}, None)
        assert len(seen.json()["samples"]) == 3
        blind = await client.post("/jobs/bulk", json=order)
        assert (blind.status_code, blind.json()["code"]) == (409, "bulk-refused")
        sure = order | {"filter_hash": seen.json()["filter_hash"], "expected_max": 3, "note": "all of them"}
        begun = await client.post("/jobs/bulk", json=sure)
        assert begun.status_code == 202, begun.text
        assert begun.headers["location"] == f"/api/v1/operations/{begun.json()['id']}"
        ended = await rest.app.operations.wait(int(begun.json()["id"]), timeout=20)
        told = (await client.get(f"/operations/{begun.json()['id']}")).json()
        assert (ended.done, told["done"], told["state"], told["by"]) == (3, 3, "completed", "root")
    reader = Principal("eve", permissions=frozenset({Permission.READ, Permission.READ_ALL}))
    async with rest.knows(reader) as client:
        refused = await client.post(f"/operations/{begun.json()['id']}/cancel")
        assert (refused.status_code, refused.json()["permission"]) == (403, "jobs:cancel")


async def test_a_browser_shows_its_token_once(make_rest: Callable[..., Rest]) -> None:
    rest = make_rest(auth=None)
    rest.api = RowlockAPI(rest.app, auth=[TokenAuth(rest.app), SessionAuth(rest.app)])
    made = await rest.app.tokens.create("browser", roles=["operator"])
    async with rest.client(None, base="https://door/api/v1") as client:
        assert (await client.get("/me")).status_code == 401
        same = {"Sec-Fetch-Site": "same-origin"}
        opened = await client.post("/auth/login", json={"token": made.text}, headers=same)
        assert (opened.status_code, opened.json()["roles"]) == (200, ["operator"]), opened.text
        assert "httponly" in opened.headers["set-cookie"].lower()
        assert (await client.get("/me")).json()["subject"] == "token:browser"
        elsewhere = await client.post("/jobs", json={"kind": "explode"}, headers={"Sec-Fetch-Site": "cross-site"})
        assert (elsewhere.status_code, elsewhere.json()["code"]) == (403, "cross-site")
        assert (await client.post("/jobs", json={"kind": "explode"}, headers=same)).status_code == 202
        assert (await client.post("/auth/logout", headers=same)).status_code == 204
        assert (await client.get("/me")).status_code == 401
        wrong = await client.get("/me", headers={"Authorization": f"Bearer {made.text[:-3]}xyz"})
        assert (wrong.status_code, wrong.json()["code"]) == (401, "unauthenticated")
        right = await client.get("/me", headers={"Authorization": f"Bearer {made.text}"})
        assert right.json()["kind"] == "token"
