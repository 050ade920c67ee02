"""Every route for every role: allowed or 403; what is somebody else's is 404; who may only read changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock.api import sse
from rowlock.api.route import SAFE, Route
from rowlock.model import ids
from rowlock.model.access import ALL, Permission, Principal

if TYPE_CHECKING:
    import httpx
    from tests.api.conftest import Rest

    from rowlock.api import RowlockAPI

READ, SUBMIT, APPROVE, CANCEL, RETRY = "jobs:read", "jobs:submit", "jobs:approve", "jobs:cancel", "jobs:retry"
VIEW, MANAGE, TOKENS = "workers:view", "workers:manage", "tokens:manage"
# operation -> the permission it takes, and a body that fits.
TABLE: dict[str, tuple[str | None, object]] = {
    "submit_job": (SUBMIT, {"kind": "greet", "args": {"name": "x"}}),
    "list_jobs": (READ, None),
    "get_job": (READ, None),
    "delete_job": ("jobs:delete", None),
    "list_attempts": (READ, None),
    "explain_job": (READ, None),
    "approve_job": (APPROVE, {}),
    "reject_job": (APPROVE, {}),
    "cancel_job": (CANCEL, {}),
    "retry_job": (RETRY, {}),
    "cancel_running_job": (MANAGE, {}),
    "reprioritise_job": (MANAGE, {"priority": 3}),
    "stream_job": (READ, None),
    "stream_events": (READ, None),
    "list_kinds": (READ, None),
    "get_kind_schema": (READ, None),
    "get_status": (VIEW, None),
    "list_lanes": (VIEW, None),
    "get_lane": (VIEW, None),
    "create_lane": (MANAGE, {"name": "new"}),
    "change_lane": (MANAGE, {"slots": 3}),
    "pause_lane": (MANAGE, None),
    "drain_lane": (MANAGE, None),
    "resume_lane": (MANAGE, None),
    "drain_worker": (MANAGE, None),
    "get_summary": (VIEW, None),
    "get_backlog": (VIEW, None),
    "get_slow": (VIEW, None),
    "get_failures": (VIEW, None),
    "get_throughput": (VIEW, None),
    "get_me": (None, None),
    "get_features": (None, None),
    "list_tokens": (TOKENS, None),
    "create_token": (TOKENS, {"name": "ci", "permissions": ["jobs:read"]}),
    "revoke_token": (TOKENS, None),
    "list_audit": ("audit:read", None),
}
OPEN = {"get_health", "get_readiness", "get_deploy_readiness"}
ROLES = ("user", "operator", "platform_admin")


def routes_of(api: RowlockAPI) -> dict[str, Route]:
    return {str(route.operation_id): route for route in api.router.routes if isinstance(route, Route)}


async def ask(client: httpx.AsyncClient, rest: Rest, operation: str, **known: str) -> httpx.Response:
    """The operation on things that are there: a fresh job of the asker, a lane, a worker."""
    route, (_, body) = routes_of(rest.api)[operation], TABLE[operation]
    names = {"name": "front", "kind": "greet", "worker": "w", "token_id": "none", **known}
    (method,) = route.methods
    headers = {"If-Match": "*"} if operation == "change_lane" else {}
    return await client.request(method, route.path.format(**names), json=body, headers=headers)


async def seeded(rest: Rest, **options: Any) -> str:  # noqa: ANN401 - of a submission
    rest.api.stream_seconds = -sse.LIFE
    await rest.store.worker()
    await rest.app.lanes.create("front")
    options = {"kind": "pay", "args": {"amount": 1}, **options}
    job = await rest.submit(**options)
    # Ended, so that a stream of it ends too; that of everything has no time to live.
    await rest.store.stop(ids.decode(job["id"]))
    return str(job["id"])


def test_the_table_names_every_route_and_its_permission(rest: Rest) -> None:
    found = {name: (route.openapi_extra or {})["x-permission"] for name, route in routes_of(rest.api).items()}
    assert found == {name: needs for name, (needs, _) in TABLE.items()}
    document = rest.api.openapi()
    described = {operation["operationId"] for item in document["paths"].values() for operation in item.values()}
    assert described == {*TABLE, *OPEN}


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_do_what_its_permissions_say_and_nothing_else(rest: Rest, role: str) -> None:
    held = (await rest.app.roles.get(role)).permissions
    client = rest.knows(Principal("ada", permissions=held, roles=(role,)))
    job = await seeded(rest, submitted_by="ada")
    wrong = {}
    async with client:
        for operation, (needs, _) in TABLE.items():
            answer = await ask(client, rest, operation, job_id=job)
            allowed = needs is None or needs in held
            if (answer.status_code == 403) is allowed or answer.status_code in (401, 422, 500):
                wrong[operation] = (answer.status_code, answer.text)
            if not allowed:
                assert answer.json()["permission"] == needs, operation
            if operation == "delete_job" and allowed:
                job = (await rest.submit("pay", args={"amount": 1}, submitted_by="ada"))["id"]
                await rest.store.stop(ids.decode(job))
    assert wrong == {}


@pytest.mark.parametrize("tenant", ["b", None])
async def test_a_job_of_another_tenant_does_not_exist(rest: Rest, tenant: str | None) -> None:
    job = await seeded(rest, tenant="a")
    about_one = [name for name, route in routes_of(rest.api).items() if "{job_id}" in route.path]
    assert len(about_one) > 8
    async with rest.knows(Principal("bo", tenant, permissions=ALL - {Permission.READ_ALL})) as client:
        for operation in about_one:
            answer = await ask(client, rest, operation, job_id=job)
            assert (answer.status_code, answer.json()["code"]) == (404, "job-not-found"), (operation, answer.text)
        assert (await client.get("/jobs")).json()["items"] == []
        assert (await client.get("/jobs", params={"q": f"id:{job}"})).json()["items"] == []


async def test_who_may_only_read_changes_nothing(rest: Rest) -> None:
    job = await seeded(rest)
    picture = "SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {s}.%s t"
    tables = ("jobs", "lanes", "workers", "tokens", "job_acts", "audit", "roles", "job_keys")
    before = [await rest.store.value(picture % table) for table in tables]
    reading = {Permission(name) for name, _ in TABLE.values() if name in (READ, VIEW, "audit:read", "jobs:read_all")}
    async with rest.knows(Principal("eve", permissions=frozenset(reading | {Permission.READ_ALL}))) as client:
        for operation, route in routes_of(rest.api).items():
            (method,) = route.methods
            if method not in SAFE:
                answer = await ask(client, rest, operation, job_id=job)
                assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), operation
    assert [await rest.store.value(picture % table) for table in tables] == before


async def test_a_read_only_door_refuses_every_change_of_everybody(rest: Rest) -> None:
    job = await seeded(rest)
    rest.api.read_only = True
    async with rest.client() as client:
        for operation, route in routes_of(rest.api).items():
            (method,) = route.methods
            answer = await ask(client, rest, operation, job_id=job)
            if method in SAFE:
                assert answer.is_success, (operation, answer.text)
            else:
                assert (answer.status_code, answer.json()["code"]) == (403, "read-only"), operation


async def test_tokens_are_shown_once_and_what_was_done_is_written_down(rest: Rest) -> None:
    async with rest.client() as client:
        made = await client.post("/tokens", json={"name": "ci", "permissions": ["jobs:read"], "expires_in_s": 60})
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
