"""The permission matrix, made from the route table: every case of every route, and a world in which each can succeed.

A caller of tenant acme asks about things of its tenant that others made; routes below /admin/workers are asked about a
job of another tenant, because those permissions hold for the whole platform.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tests.factories import rate

from rowlock import Rate
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.streaming import sse
from rowlock.model import ids, json_output
from rowlock.model.access import ALL, Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx
    from tests.api.conftest import Rest

    from rowlock.model.access import HeldPermission

METHODS: Final = frozenset({"get", "post", "patch", "delete"})
TENANT: Final = "acme"
NOT_COMPARED: Final = frozenset(
    {"audit", "audit_seals", "audit_unsealed", "login_failures", "sessions", "duties", "job_waiters"}
)
"""Refusals are recorded; the others change without a caller."""
BODIES: Final[dict[str, object]] = {
    "submit_job": {"kind": "greet", "args": {"name": "x"}},
    "change_job": {"priority": 3},
    "order_jobs": {"search": "kind:explode", "dry_run": True},
    "reprioritise_job": {"priority": 3},
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
    "create_token": {"name": "ci", "permissions": ["tokens:manage"]},
    "grant_role": {"subject": "bob"},
    "create_schedule": {"name": "s", "kind": "greet", "args": {"name": "x"}, "every": 60},
    "change_schedule": {"overlap": "skip"},
    "backfill_schedule": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T02:00:00Z"},
}
"""A body that fits, where a route takes one."""
CASES: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("submit_job", "for another subject or tenant"): {"body": {"tenant": "globex"}},
    ("submit_job", "with a gate"): {"body": {"gate": "org:7"}},
    ("clone_job", "with secret arguments"): {"kind": "login", "args": {"user": "x", "password": "hunter22"}},
    ("add_rule", "beyond one's own tenant"): {"tenant": None},
    ("create_schedule", "for another tenant"): {"body": {"tenant": "globex"}},
    ("create_token", "for another subject or tenant"): {"body": {"tenant": "globex"}},
    ("create_webhook", "for another tenant, or all"): {"body": {"tenant": "globex"}},
    ("create_view", "for a shared view"): {"body": {"shared": True}},
    ("change_view", "for a shared view"): {"shared": True},
    ("delete_view", "for a shared view"): {"shared": True},
    ("delete_job", "a waiting job"): {"ended": False},
    ("delete_job", "an ended job"): {"ended": True},
}
"""How a case or condition of the route table is brought about; those of an action or topic follow from its name."""
WITHOUT_SCOPE: Final = frozenset(
    {"create_lane", "change_gate", "delete_gate", "set_rate", "pause_rate", "resume_rate", "reset_rate", "delete_rate"}
    | {
        "verify_audit",
        "drain_worker",
        "forget_worker",
        "list_rules",
        "add_rule",
        "remove_rule",
        "get_references",
        "export_audit",
    }
    | {"create_webhook", "change_webhook", "list_deliveries"}
    | {"set_retention", "reset_retention"}
    | {"get_doctor", "list_failures", "get_failure", "mute_failure", "unmute_failure"}
)
"""Routes that concern more than some kinds or lanes: they take their permissions without a scope."""
SHOWS_NOTHING: Final = frozenset(
    {"list_jobs", "list_workflows", "list_pending", "list_schedules", "list_kinds", "stream_events", "order_jobs"}
    | {"get_operation", "cancel_operation", "suggest_search", "count_search", "list_views", "explain_jobs"}
)
"""Routes that succeed whatever the scope, and show the things within it; an operation belongs to the caller itself."""
OF_THE_CALLER: Final = frozenset({"create_view", "change_view", "delete_view"})
"""Routes that change what the caller alone owns, whatever jobs its permissions reach."""
PENDING: Final = frozenset({"approve_job", "reject_job", "get_approval"})
ENDED: Final = frozenset({"retry_job", "stream_job", "retry_workflow"})


@dataclass(frozen=True)
class Case:
    """One line of the matrix: an operation, the case, and every permission that it needs then."""

    operation: str
    method: str
    path: str
    name: str
    needs: frozenset[Permission]
    how: dict[str, Any] = field(default_factory=dict)

    @property
    def platform(self) -> bool:
        return "/admin/workers/jobs/" in self.path

    @property
    def kind(self) -> str:
        """The kind of the job that is asked about."""
        return str(self.how.get("kind", "pay" if self.operation in PENDING else "greet"))

    @property
    def lane(self) -> str:
        """The lane that is asked about, or that takes the job."""
        return "front" if "/lanes/" in self.path else "rest"


def cases_of(document: dict[str, Any]) -> Iterator[Case]:
    for path, item in document["paths"].items():
        for method in METHODS & item.keys():
            operation = item[method]
            if operation.get("x-embed"):
                continue  # these take no principal: tests/api/routes/test_embed.py
            yield from _cases(
                operation["operationId"], method, path, RoutePermissions.from_data(operation["x-permissions"])
            )


def _cases(operation: str, method: str, path: str, needs: RoutePermissions) -> Iterator[Case]:
    always = frozenset(needs.always)
    plain = Case(operation, method, path, "", always)
    if not needs.by_case:
        yield plain
    for name, need in needs.by_case.items():
        yield replace(plain, name=name, needs=always | {need}, how=_how(operation, name))
    for name, need in needs.also.items():
        yield replace(plain, name=name, needs=always | {need}, how=_how(operation, name))


def _how(operation: str, name: str) -> dict[str, Any]:
    if operation == "order_jobs":
        return {"body": {"action": name, **({"priority": 3} if name == "priority" else {})}}
    if operation == "cancel_operation":
        return {"action": name}
    if operation == "stream_events":
        return {"query": {"topics": name.removeprefix("the topic ")}}
    return CASES[operation, name]


@dataclass
class World:
    """Everything that a route may be asked about."""

    rest: Rest
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def fill(self) -> None:
        self.rest.api.stream_seconds = -sse.LIFETIME
        await self.rest.store.worker()
        await self.rest.app.lanes.create("front")
        await self.rest.store.gate("org:7")
        await self.rest.store.gate("unused")
        await rate(self.rest.store, "org:7", Rate(1))
        await self.rest.store.execute(
            "INSERT INTO {s}.failure_groups (fingerprint, tenant, kind, first_seen, last_seen) "
            "VALUES ('f00d', $1, 'greet', now(), now())",
            TENANT,
        )

    async def request(self, case: Case) -> dict[str, Any]:
        """Path, body and query of a request that can succeed, on things made for it."""
        app, how = self.rest.app, case.how
        names = {
            "name": "front",
            "kind": "greet",
            "worker": "w",
            "key": "org:7",
            "operation_id": "1",
            "fingerprint": "f00d",
        }
        if "{job_id}" in case.path or "{workflow_id}" in case.path:
            names |= await self._job(case)
        names |= await self._other_things(case)
        if "/retention/" in case.path:
            names["kind"] = "*"
        if "{webhook_id}" in case.path:
            added = await app.webhooks.add("https://example.com/", tenant=TENANT)
            names["webhook_id"] = str(added.webhook.id)
        body = BODIES.get(case.operation)
        if isinstance(body, dict):
            body = {**body, **how.get("body", {})}
            if "name" in body and case.operation.startswith("create"):
                body["name"] = f"{body['name']}{next(self.numbers)}"
        if case.operation == "log_in":
            body = {"token": (await app.tokens.create("browser", roles=["user"])).text}
        query = {"id": (await self._job(case))["job_id"]} if case.operation == "explain_jobs" else how.get("query")
        path = case.path.replace(":path}", "}").format(**names)
        return {"url": f"http://door{path}", "json": body, "params": query}

    async def _role(self, case: Case) -> str:
        """A principal gives and takes only what it holds itself."""
        name = f"minor{next(self.numbers)}"
        await self.rest.app.roles.set(name, ["tokens:manage"])
        if case.operation == "revoke_role":
            await self.rest.app.roles.grant("bob", name)
        return name

    async def _other_things(self, case: Case) -> dict[str, str]:
        app, names = self.rest.app, dict[str, str]()
        if "/schedules/" in case.path:
            names["name"] = f"s{next(self.numbers)}"
            made = await app.schedules.create(names["name"], "greet", every="1h", args={"name": "x"}, tenant=TENANT)
            # As if code had declared it, so that there is something to reset it to.
            await self.rest.store.connection.execute(
                "UPDATE rowlock.schedules SET declared = $1 WHERE name = $2",
                json.dumps(made.fields(), default=json_output.plain),
                made.name,
            )
        if "{token_id}" in case.path:
            token = await app.tokens.create("old", permissions=["tokens:manage"], tenant=TENANT)
            names["token_id"] = token.token.id
        if "{role}" in case.path:
            names |= {"role": await self._role(case), "subject": "bob"}
        if "{view_id}" in case.path:
            names["view_id"] = await self.rest.store.value(
                "INSERT INTO {s}.saved_views (owner, tenant, name, query, shared) VALUES ($1, $2, $3, '', $4) "
                "RETURNING id::text",
                "ada",
                TENANT,
                f"v{next(self.numbers)}",
                bool(case.how.get("shared")),
            )
        if "{rule_id}" in case.path:
            names["rule_id"] = str((await app.approvals.add_rule(kind="pay", tenant=TENANT)).id)
        if case.operation == "delete_rate":
            names["key"] = f"old{next(self.numbers)}"
            await rate(self.rest.store, names["key"], Rate(1))
            await self.rest.store.connection.execute("UPDATE rowlock.rates SET used_at = now() - interval '1 day'")
        if case.operation == "delete_gate":
            names["key"] = f"gate{next(self.numbers)}"
            await self.rest.store.gate(names["key"])
        if case.operation == "forget_worker":
            names["worker"] = f"quiet{next(self.numbers)}"
            await self.rest.store.silence(await self.rest.store.worker(names["worker"]), 60)
        if "{operation_id}" in case.path:
            names["operation_id"] = await self._operation(case.how.get("action", "cancel"))
        return names

    async def _job(self, case: Case) -> dict[str, str]:
        pending, kind = case.operation in PENDING, case.kind
        args = case.how.get("args", {"amount": 1} if pending else {"name": "x"})
        tenant = "globex" if case.platform else TENANT
        job = (await self.rest.app.jobs.submit(kind, args, tenant=tenant, submitted_by="bob")).job
        names = {"job_id": job.public_id}
        if "{workflow_id}" in case.path:
            number = await self.rest.store.value("SELECT rowlock.workflow_adopt($1)", job.id)
            names["workflow_id"] = ids.encode_workflow(number)
        if case.how.get("ended", case.operation in ENDED):
            await self.rest.store.stop(job.id)
        return names

    async def _operation(self, action: str) -> str:
        desk = self.rest.app.desk(Principal("ada", TENANT, permissions=ALL))
        more: Any = {"action": action, "search": "kind:explode", "priority": 1 if action == "priority" else None}
        seen = await desk.jobs.bulk(**more, dry_run=True)
        begun = await desk.jobs.bulk(**more, filter_hash=seen.filter_hash, expected_max=1)
        await desk.operations.wait(int(begun.id or 0), timeout=30)
        return str(begun.id)

    async def picture(self) -> dict[str, str]:
        tables = await self.rest.store.connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'rowlock'")
        return {
            name: await self.rest.store.value(
                f"SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {{s}}.{name} t"
            )
            for (name,) in tables
            if name not in NOT_COMPARED
        }

    async def ask(self, client: httpx.AsyncClient, case: Case, asked: dict[str, Any]) -> httpx.Response:
        return await client.request(
            case.method.upper(), headers={"Sec-Fetch-Site": "same-origin", "If-Match": "*"}, **asked
        )


def caller(case: Case, held: frozenset[HeldPermission]) -> Principal:
    return Principal("ada", case.how.get("tenant", TENANT), permissions=held)


async def everything(rest: Rest) -> tuple[World, list[Case]]:
    world = World(rest)
    await world.fill()
    return world, list(cases_of(rest.api.openapi()))
