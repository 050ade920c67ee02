"""Every method of the desk for every role: allowed or refused. A method without a line here makes a test red."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from rowlock import Forbidden, JobNotFound, Permission, Principal, ReadOnly, Rowlock, RowlockError
from rowlock.desk.bulk import Bulk
from rowlock.desk.guard import NEEDS, RequiredPermission
from rowlock.errors import OperationNotFound, RuleNotFound
from rowlock.model.access import ALL, SYSTEM
from rowlock.model.count import Count
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.desk.conftest import Desk as Stage

    from rowlock.desk.access import Desk

LONG_AGO, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
ALL_ROLES = frozenset({"user", "operator", "platform_admin"})
STAFF = ALL_ROLES - {"user"}
ADMIN = STAFF - {"operator"}


@dataclass(frozen=True)
class Line:
    """roles: who may; call: with the desk and a job's id; orders: what it asks for itself, by what it does."""

    roles: frozenset[str]
    call: Callable[[Desk, int], Awaitable[object]]
    orders: Permission | None = None


async def closed(stream: Awaitable[Any]) -> None:
    """A stream that may be opened, and is not read."""
    (await stream).close()


TABLE: dict[str, Line] = {
    "jobs.submit": Line(ALL_ROLES, lambda d, _: d.jobs.submit("greet", {"name": "Ada"})),
    "jobs.clone": Line(ALL_ROLES, lambda d, job: d.jobs.clone(job)),
    "jobs.get": Line(ALL_ROLES, lambda d, job: d.jobs.get(job)),
    "jobs.result": Line(ADMIN, lambda d, job: d.jobs.result(job)),
    "jobs.many": Line(ALL_ROLES, lambda d, job: d.jobs.many([job])),
    "jobs.history": Line(ALL_ROLES, lambda d, job: d.jobs.history(job)),
    "jobs.explain": Line(ALL_ROLES, lambda d, job: d.jobs.explain(job)),
    "jobs.explain_many": Line(ALL_ROLES, lambda d, job: d.jobs.explain_many([job])),
    "jobs.items": Line(ALL_ROLES, lambda d, job: d.jobs.items(job)),
    "jobs.logs": Line(ALL_ROLES, lambda d, job: d.jobs.logs(job)),
    "jobs.get_for": Line(STAFF, lambda d, job: d.jobs.get_for(Permission.EDIT, job), Permission.EDIT),
    "jobs.kinds_for": Line(STAFF, lambda d, _: d.jobs.kinds_for(Permission.EDIT, ["k"]), Permission.EDIT),
    "jobs.list": Line(ALL_ROLES, lambda d, _: d.jobs.list()),
    "jobs.search": Line(ALL_ROLES, lambda d, _: d.jobs.search()),
    "jobs.wait": Line(ALL_ROLES, lambda d, job: d.jobs.wait(job, timeout=0.01)),
    "jobs.cancel": Line(STAFF, lambda d, job: d.jobs.cancel(job)),
    "jobs.cancel_many": Line(STAFF, lambda d, job: d.jobs.cancel_many([job])),
    "jobs.stop": Line(STAFF, lambda d, job: d.jobs.stop(job)),
    "jobs.approve": Line(STAFF, lambda d, job: d.jobs.approve(job)),
    "jobs.reject": Line(STAFF, lambda d, job: d.jobs.reject(job)),
    "jobs.retry": Line(STAFF, lambda d, job: d.jobs.retry(job)),
    "jobs.retry_many": Line(STAFF, lambda d, job: d.jobs.retry_many([job])),
    "jobs.reprioritise": Line(STAFF, lambda d, job: d.jobs.reprioritise(job, 3)),
    "jobs.edit": Line(STAFF, lambda d, job: d.jobs.edit(job, priority=3)),
    "jobs.delete": Line(STAFF, lambda d, job: d.jobs.delete(job)),
    "jobs.bulk": Line(
        STAFF, lambda d, job: d.jobs.bulk("retry", ids=[job], filter_hash="x", expected_max=1), Permission.RETRY
    ),
    "jobs.signal": Line(STAFF, lambda d, job: d.jobs.signal(job, "go")),
    "jobs.counts": Line(ALL_ROLES, lambda d, _: d.jobs.counts()),
    "jobs.previous": Line(ALL_ROLES, lambda d, job: d.jobs.previous(job)),
    "jobs.position": Line(ALL_ROLES, lambda d, job: d.jobs.position(job)),
    "jobs.relatives": Line(ALL_ROLES, lambda d, job: d.jobs.relatives(job)),
    "jobs.suggest": Line(ALL_ROLES, lambda d, _: d.jobs.suggest("st")),
    "failures.list": Line(ALL_ROLES, lambda d, _: d.failures.list()),
    "failures.get": Line(ALL_ROLES, lambda d, _: d.failures.get("x")),
    "failures.mute": Line(STAFF, lambda d, _: d.failures.mute("x")),
    "failures.unmute": Line(STAFF, lambda d, _: d.failures.unmute("x")),
    "views.list": Line(ALL_ROLES, lambda d, _: d.views.list()),
    "views.get": Line(ALL_ROLES, lambda d, _: d.views.get(1)),
    "views.create": Line(ALL_ROLES, lambda d, _: d.views.create("mine")),
    "views.change": Line(ALL_ROLES, lambda d, _: d.views.change(1, name="yours")),
    "views.delete": Line(ALL_ROLES, lambda d, _: d.views.delete(1)),
    "webhooks.list": Line(ADMIN, lambda d, _: d.webhooks.list()),
    "webhooks.get": Line(ADMIN, lambda d, _: d.webhooks.get(1)),
    "webhooks.add": Line(ADMIN, lambda d, _: d.webhooks.add("https://example.com/")),
    "webhooks.change": Line(ADMIN, lambda d, _: d.webhooks.change(1, enabled=False)),
    "webhooks.remove": Line(ADMIN, lambda d, _: d.webhooks.remove(1)),
    "webhooks.rotate": Line(ADMIN, lambda d, _: d.webhooks.rotate(1)),
    "webhooks.test": Line(ADMIN, lambda d, _: d.webhooks.test(1)),
    "webhooks.deliveries": Line(ADMIN, lambda d, _: d.webhooks.deliveries(1)),
    "stats.kind": Line(STAFF, lambda d, _: d.stats.kind("greet")),
    "system.status": Line(STAFF, lambda d, _: d.system.status()),
    "system.examine": Line(STAFF, lambda d, _: d.system.examine(Settings("postgresql://nowhere/x"))),
    "system.deploys": Line(STAFF, lambda d, _: d.system.deploys(LONG_AGO, LATER)),
    "system.changes": Line(ADMIN, lambda d, _: d.system.changes(LONG_AGO, LATER)),
    "workflows.get": Line(ALL_ROLES, lambda d, _: d.workflows.get(1)),
    "workflows.list": Line(ALL_ROLES, lambda d, _: d.workflows.list()),
    "workflows.wait": Line(ALL_ROLES, lambda d, _: d.workflows.wait(1, timeout=0.01)),
    "workflows.results": Line(ADMIN, lambda d, _: d.workflows.results(1, ["k"])),
    "workflows.cancel": Line(STAFF, lambda d, _: d.workflows.cancel(1)),
    "workflows.retry": Line(STAFF, lambda d, _: d.workflows.retry(1, "k")),
    "workflows.signal": Line(STAFF, lambda d, _: d.workflows.signal(1, "k", "go")),
    "approvals.pending": Line(ALL_ROLES, lambda d, _: d.approvals.pending()),
    "approvals.standing": Line(ALL_ROLES, lambda d, job: d.approvals.standing(job)),
    "approvals.rules": Line(STAFF, lambda d, _: d.approvals.rules()),
    "approvals.add_rule": Line(STAFF, lambda d, _: d.approvals.add_rule(kind="pay")),
    "approvals.remove_rule": Line(STAFF, lambda d, _: d.approvals.remove_rule(1)),
    "operations.preview": Line(STAFF, lambda d, job: d.operations.preview("cancel", ids=[job]), Permission.CANCEL),
    "operations.start": Line(
        STAFF,
        lambda d, job: d.operations.start("delete", ids=[job], filter_hash="x", expected_max=1),
        Permission.DELETE,
    ),
    "operations.get": Line(ALL_ROLES, lambda d, _: d.operations.get(1)),
    "operations.list": Line(ALL_ROLES, lambda d, _: d.operations.list()),
    "operations.wait": Line(ALL_ROLES, lambda d, _: d.operations.wait(1, timeout=0.01)),
    "operations.cancel": Line(ALL_ROLES, lambda d, _: d.operations.cancel(1)),
    "streams.follow": Line(ALL_ROLES, lambda d, job: closed(d.streams.follow(job))),
    "streams.listen": Line(ALL_ROLES, lambda d, _: closed(d.streams.listen()), Permission.READ),
    "lanes.get": Line(STAFF, lambda d, _: d.lanes.get("default")),
    "lanes.get_for_change": Line(STAFF, lambda d, _: d.lanes.get_for_change("default")),
    "lanes.running": Line(STAFF, lambda d, _: d.lanes.running()),
    "lanes.loads": Line(STAFF, lambda d, _: d.lanes.loads()),
    "lanes.list": Line(STAFF, lambda d, _: d.lanes.list()),
    "lanes.create": Line(STAFF, lambda d, _: d.lanes.create("new")),
    "lanes.set": Line(STAFF, lambda d, _: d.lanes.set("default", slots=3)),
    "lanes.drain": Line(STAFF, lambda d, _: d.lanes.drain("default")),
    "lanes.resume": Line(STAFF, lambda d, _: d.lanes.resume("default")),
    "lanes.delete": Line(STAFF, lambda d, _: d.lanes.delete("default")),
    "retention.list": Line(STAFF, lambda d, _: d.retention.list()),
    "retention.set": Line(STAFF, lambda d, _: d.retention.set("*", "3d")),
    "retention.reset": Line(STAFF, lambda d, _: d.retention.reset("*")),
    "limits.gates": Line(STAFF, lambda d, _: d.limits.gates()),
    "limits.gate": Line(STAFF, lambda d, _: d.limits.gate("g")),
    "limits.set_gate": Line(STAFF, lambda d, _: d.limits.set_gate("g", limit=3)),
    "limits.delete_gate": Line(STAFF, lambda d, _: d.limits.delete_gate("g")),
    "limits.rates": Line(STAFF, lambda d, _: d.limits.rates()),
    "limits.rate": Line(STAFF, lambda d, _: d.limits.rate("r")),
    "limits.set_rate": Line(STAFF, lambda d, _: d.limits.set_rate("r", "10/s")),
    "limits.pause": Line(STAFF, lambda d, _: d.limits.pause("r", "30s")),
    "limits.resume": Line(STAFF, lambda d, _: d.limits.resume("r")),
    "limits.reset": Line(STAFF, lambda d, _: d.limits.reset("r")),
    "limits.delete_rate": Line(STAFF, lambda d, _: d.limits.delete_rate("r")),
    "workers.list": Line(STAFF, lambda d, _: d.workers.list()),
    "workers.status": Line(STAFF, lambda d, _: d.workers.status()),
    "workers.drain": Line(STAFF, lambda d, _: d.workers.drain("w")),
    "workers.job_for_order": Line(STAFF, lambda d, job: d.workers.job_for_order(job)),
    "workers.cancel_job": Line(STAFF, lambda d, job: d.workers.cancel_job(job)),
    "workers.reprioritise_job": Line(STAFF, lambda d, job: d.workers.reprioritise_job(job, 3)),
    "workers.forget": Line(STAFF, lambda d, _: d.workers.forget("w")),
    "locks.list": Line(STAFF, lambda d, _: d.locks.list()),
    "stats.overview": Line(STAFF, lambda d, _: d.stats.overview()),
    "stats.backlog": Line(STAFF, lambda d, _: d.stats.backlog()),
    "stats.slow": Line(STAFF, lambda d, _: d.stats.slow("1s")),
    "stats.failures": Line(STAFF, lambda d, _: d.stats.failures()),
    "stats.panel": Line(STAFF, lambda d, _: d.stats.panel()),
    "stats.running": Line(STAFF, lambda d, _: d.stats.running()),
    "stats.references": Line(STAFF, lambda d, _: d.stats.references()),
    "stats.tenants": Line(STAFF, lambda d, _: d.stats.tenants()),
    "stats.throughput": Line(STAFF, lambda d, _: d.stats.throughput()),
    "stats.totals": Line(STAFF, lambda d, _: d.stats.totals()),
    "stats.series": Line(STAFF, lambda d, _: d.stats.series("1h")),
    "tokens.create": Line(ADMIN, lambda d, _: d.tokens.create("ci", roles=["user"])),
    "tokens.revoke": Line(ADMIN, lambda d, _: d.tokens.revoke("x")),
    "tokens.rotate": Line(ADMIN, lambda d, _: d.tokens.rotate("x")),
    "tokens.for_job": Line(ADMIN, lambda d, j: d.tokens.for_job(j, show=["logs"], cancel=True)),
    "tokens.for_user": Line(ADMIN, lambda d, _: d.tokens.for_user("ada")),
    "tokens.revoke_for_job": Line(ADMIN, lambda d, j: d.tokens.revoke_for_job(j)),
    "tokens.revoke_for_user": Line(ADMIN, lambda d, _: d.tokens.revoke_for_user("ada")),
    "tokens.rotate_embed_key": Line(ADMIN, lambda d, _: d.tokens.rotate_embed_key()),
    "tokens.list": Line(ADMIN, lambda d, _: d.tokens.list()),
    "roles.get": Line(ADMIN, lambda d, _: d.roles.get("user")),
    "roles.list": Line(ADMIN, lambda d, _: d.roles.list()),
    "roles.set": Line(ADMIN, lambda d, _: d.roles.set("mine", ["jobs:read"])),
    "roles.delete": Line(ADMIN, lambda d, _: d.roles.delete("mine")),
    "roles.grant": Line(ADMIN, lambda d, _: d.roles.grant("ada", "user")),
    "roles.revoke": Line(ADMIN, lambda d, _: d.roles.revoke("ada", "user")),
    "roles.grants": Line(ADMIN, lambda d, _: d.roles.grants()),
    "schedules.declare": Line(STAFF, lambda d, _: d.schedules.declare()),
    "schedules.get": Line(STAFF, lambda d, _: d.schedules.get("s")),
    "schedules.get_for_change": Line(STAFF, lambda d, _: d.schedules.get_for_change("s")),
    "schedules.list": Line(STAFF, lambda d, _: d.schedules.list()),
    "schedules.next": Line(STAFF, lambda d, _: d.schedules.next("s")),
    "schedules.create": Line(STAFF, lambda d, _: d.schedules.create("s", "greet", every="1h", args={"name": "Ada"})),
    "schedules.edit": Line(STAFF, lambda d, _: d.schedules.edit("s", overlap="skip")),
    "schedules.reset": Line(STAFF, lambda d, _: d.schedules.reset("s")),
    "schedules.pause": Line(STAFF, lambda d, _: d.schedules.pause("s")),
    "schedules.resume": Line(STAFF, lambda d, _: d.schedules.resume("s")),
    "schedules.run": Line(STAFF, lambda d, _: d.schedules.run("s")),
    "schedules.backfill": Line(STAFF, lambda d, _: d.schedules.backfill("s", LONG_AGO, LATER)),
    "schedules.delete": Line(STAFF, lambda d, _: d.schedules.delete("s")),
    "audit.verify": Line(ADMIN, lambda d, _: d.audit.verify()),
    "audit.verify_stretch": Line(ADMIN, lambda d, _: d.audit.verify_stretch()),
    "audit.export": Line(ADMIN, lambda d, _: d.audit.export()),
    "audit.list": Line(ADMIN, lambda d, _: d.audit.list()),
}
IN_CODE = {"lanes.define", "lanes.defined", "schedules.define", "schedules.defined", "streams.close", "streams.closing"}
"""Of the process, not of whoever asks; define() asks the guard itself."""
BY_TOPIC = {"streams.listen", "jobs.get_for", "jobs.kinds_for"}
"""Have no guard before them: what they need depends on what is listened to, or is an argument."""
UNSAFE = {"jobs.bulk", "operations.start"}
"""A dry run is a reading, so their guard is that of readings; the order itself asks once more."""
TABLES = (
    *("jobs", "job_acts", "lanes", "workers", "tokens", "roles", "role_grants", "audit", "sessions", "job_keys"),
    *("operations", "approval_rules", "schedules", "workflows", "workflow_steps", "signals", "gates", "rates"),
)


def methods(app: Rowlock) -> dict[str, Callable[..., Any]]:
    """Every public method of every class of the desk."""
    return {
        f"{room}.{name}": value
        for room, desk in inspect.getmembers(app.desk(SYSTEM))
        if type(desk).__module__.startswith("rowlock.desk.") and room != "guard" and not room.startswith("_")
        for name, value in inspect.getmembers(type(desk))
        if not name.startswith("_")
    }


def needs(name: str, method: Callable[..., Any]) -> RequiredPermission:
    """What a call as in the table takes."""
    found: RequiredPermission | None = getattr(method, NEEDS, None)
    asked = TABLE[name].orders or (found.permission if found else None)
    assert asked is not None
    return RequiredPermission(asked, unsafe=name in UNSAFE or (found is not None and found.unsafe))


async def held_by(app: Rowlock, role: str, **more: Any) -> Principal:  # noqa: ANN401 - Principal's fields
    principal = await app.identity.of("ada", roles=[role])
    return replace(principal, **more)


@pytest.fixture
async def job(stage: Stage) -> int:
    """A job of no tenant that ada submitted."""

    @stage.app.job
    async def greet(name: str) -> str:
        return name

    await stage.lane()
    await stage.worker()
    return await stage.store.enqueue(submitted_by="ada")


@pytest.fixture
def stage(desk: Stage) -> Stage:
    return desk


def test_every_method_has_a_line_and_a_guard(app: Rowlock) -> None:
    found = methods(app)
    assert set(TABLE) | IN_CODE == set(found)
    assert {name for name in TABLE if not hasattr(found[name], NEEDS)} == BY_TOPIC


@pytest.mark.parametrize("role", [*sorted(ALL_ROLES), "nobody"])
async def test_every_method_for_every_role(stage: Stage, job: int, role: str) -> None:
    desk, found = stage.app.desk(await held_by(stage.app, role)), methods(stage.app)
    for name, line in TABLE.items():
        refused = await error_of(line.call(desk, job))  # a wrong state, perhaps, of what the guard let pass
        assert isinstance(refused, Forbidden) == (role not in line.roles), name
        if isinstance(refused, Forbidden):
            needed = needs(name, found[name]).permission
            # Whoever may not even read is told that first.
            assert refused.permission in ({needed, Permission.READ} if role == "nobody" else {needed})
            assert refused.permission in str(refused)


@pytest.mark.parametrize("role", sorted(ALL_ROLES))
async def test_the_roles_of_the_migration_hold_what_the_table_says(app: Rowlock, role: str) -> None:
    held = (await held_by(app, role)).permissions
    assert {name for name, line in TABLE.items() if role in line.roles} == {
        name for name in TABLE if needs(name, methods(app)[name]).permission in held
    }
    assert role != "platform_admin" or held == ALL


async def test_a_read_only_desk_changes_nothing(stage: Stage, job: int) -> None:
    desk = stage.app.desk(await held_by(stage.app, "platform_admin"), read_only=True)
    before = await dump(stage)
    unsafe = [name for name, method in methods(stage.app).items() if name in TABLE and needs(name, method).unsafe]
    for name in unsafe:
        with pytest.raises(ReadOnly):
            await TABLE[name].call(desk, job)
    with pytest.raises(ReadOnly):
        desk.lanes.define("mine")
    assert await dump(stage) == before
    for name in set(TABLE) - set(unsafe):
        assert not isinstance(await error_of(TABLE[name].call(desk, job)), Forbidden), name
    assert await dump(stage) == before


async def error_of(call: Awaitable[object]) -> RowlockError | None:
    try:
        await call
    except RowlockError as error:
        return error
    return None


async def dump(stage: Stage) -> dict[str, object]:
    return {
        table: await stage.store.value(f"SELECT jsonb_agg(to_jsonb(t) ORDER BY to_jsonb(t)::text) FROM {{s}}.{table} t")
        for table in TABLES
    }


async def test_another_tenants_job_is_not_there(stage: Stage, job: int) -> None:
    """For whoever holds every permission but the one to see all jobs."""
    theirs = await stage.store.enqueue(tenant="globex", submitted_by="ada")
    may = ALL - {Permission.READ_ALL}
    desks = {
        "of a tenant": stage.app.desk(Principal("ada", "acme", may)),
        "of none": stage.app.desk(Principal("ada", None, may)),
        "somebody else": stage.app.desk(Principal("eve", None, may)),
    }
    taking = [
        name
        for name, method in methods(stage.app).items()
        if name in TABLE and {"job_id", "job_ids"} & set(inspect.signature(method).parameters) and name != "audit.list"
        # Operators of workers reach every job of the platform, and read nothing of it.
        if not name.startswith("workers.")
    ]
    assert len(taking) >= 19
    before = await dump(stage)
    for who, desk in desks.items():
        for name in taking:
            for hidden in [theirs, *([job] if who != "of none" else [])]:
                assert await outcome(TABLE[name].call(desk, hidden)) in ("not found", "left out"), (who, name)
    assert await dump(stage) == before
    assert await outcome(desks["of none"].jobs.get(job)) == "done"
    assert [found.id for found in await desks["of a tenant"].jobs.list()] == []
    assert [found.id for found in await desks["of none"].jobs.list()] == [job]


async def test_another_tenants_orders_and_rules_are_not_there(stage: Stage, job: int) -> None:
    may = ALL - {Permission.READ_ALL}
    acme, globex = (stage.app.desk(Principal("ada", tenant, may)) for tenant in ("acme", "globex"))
    theirs = await stage.store.enqueue(tenant="globex", approval=True)
    rule = await globex.approvals.add_rule(kind="pay", args={"pin": 1234})
    seen = await globex.jobs.bulk("approve", ids=[theirs], dry_run=True)
    order = await globex.jobs.bulk("approve", ids=[theirs], filter_hash=seen.filter_hash, expected_max=1)
    assert order.id is not None
    assert (await globex.operations.wait(order.id, timeout=10)).done == 1

    assert (await acme.approvals.pending()).items == (await acme.jobs.search()).items == []
    assert [*await acme.operations.list(), *await acme.approvals.rules()] == []
    for call in (acme.operations.get, acme.operations.cancel, acme.operations.wait):
        with pytest.raises(OperationNotFound):
            await call(order.id)
    with pytest.raises(RuleNotFound):
        await acme.approvals.remove_rule(rule.id)
    for target in ({"ids": [theirs, job]}, {"search": "kind:k"}):
        preview = await acme.operations.preview("cancel", **target)
        assert (preview.count, preview.samples) == (Count(), [])
    assert [each.id for each in (await globex.jobs.search("kind:k")).items] == [theirs]
    shown = {each.id: each.args for each in (*await globex.approvals.rules(), *await stage.app.approvals.rules())}
    assert shown == {rule.id: {"pin": 1234}}


async def outcome(call: Awaitable[object]) -> str:
    try:
        answer = await call
    except JobNotFound:
        return "not found"
    left_out = answer == [] or (isinstance(answer, Bulk) and not answer.changed and len(answer.refused) == 1)
    return "left out" if left_out else "done"


@pytest.mark.parametrize("filters", [{}, {"states": ["queued"]}, {"tag": "red"}, {"states": ["completed"]}])
async def test_lists_hold_the_tenants_jobs_alone(stage: Stage, filters: dict[str, Any]) -> None:
    store = stage.store
    for tenant in ("acme", "globex", None):
        for state in ("queued", "completed"):
            job = await store.enqueue(statement="enqueue_referenced", tenant=tenant, submitted_by="ada", tags=("red",))
            if state == "completed":
                await store.complete(*(await store.claim(await store.worker(), job)))
    desk = stage.app.desk(Principal("eve", "acme", frozenset({Permission.READ})))
    found = await desk.jobs.list(**filters)
    assert {job.tenant for job in found} == {"acme"}
    assert await desk.jobs.list(tenant="globex", **filters) == []


async def test_those_who_watch_the_workers_see_every_slot_and_the_labels_of_their_own_jobs(stage: Stage) -> None:
    store, worker = stage.store, await stage.worker()
    await stage.lane()
    for tenant in ("acme", "globex"):
        job = await store.enqueue(tenant=tenant)
        (claim,) = await store.claim(worker, await store.enqueue(tenant=tenant))
        await store.complete(claim, state="failed")
        await store.claim(worker, job)
    seen = Principal("eve", "acme", frozenset({Permission.WORKERS_VIEW, Permission.READ}))
    desk = stage.app.desk(seen)
    (status,) = (await desk.workers.status()).workers
    assert [job.tenant for job in status.jobs] == ["acme", None]
    assert len(await desk.stats.slow("0s")) == len(await desk.stats.running()) == 1
    assert len((await desk.stats.panel()).running) == 1
    assert {one.tenant for one in await desk.stats.tenants()} == {"acme"}
    with pytest.raises(Forbidden, match="jobs:read_all"):
        await desk.stats.references()
    assert sum(use.used for use in status.slots) == 2  # the numbers are everybody's
    (failures,) = await desk.stats.failures()
    assert failures.failed.value == 2
    assert failures.last_failed_id is None  # globex's


async def test_explain_names_no_strangers_job(stage: Stage) -> None:
    store, worker = stage.store, await stage.worker()
    await stage.lane()
    await store.gate("g")
    other = await store.enqueue(tenant="globex", gate_key="g")
    await store.claim(worker, other)
    mine = await store.enqueue(tenant="acme", gate_key="g")
    await store.claim(worker, mine)
    public = (await stage.app.jobs.get(other)).public_id
    assert public in str(await stage.app.jobs.explain(mine))
    desk = stage.app.desk(Principal("eve", "acme", frozenset({Permission.READ})))
    assert public not in str(await desk.jobs.explain(mine))


async def test_secrets_are_shown_to_those_who_may_read_them(app: Rowlock) -> None:
    from pydantic import SecretStr  # noqa: PLC0415 - of this test alone

    async def login(user: str, password: SecretStr) -> None: ...

    login.__annotations__ = {"user": str, "password": SecretStr, "return": None}
    task = app.job(login)
    job = await task.enqueue(user="ada", password=SecretStr("hunter22"))
    read = frozenset({Permission.READ, Permission.READ_ALL})
    masked, shown = ({"user": "ada", "password": text} for text in ("•••", "hunter22"))
    for principal, args in (
        (Principal("eve", None, read), masked),
        (Principal("eve", None, read | {Permission.READ_ARGS}), shown),
        (SYSTEM, masked),
    ):
        jobs = app.desk(principal).jobs
        history, explanation = await jobs.history(job.id), await jobs.explain(job.id)
        found = [await jobs.get(job.id), *await jobs.many([job.id]), *await jobs.list(), history.job]
        assert [each.args for each in found] == [args] * 4
        assert explanation.job.args == masked


async def test_orders_are_signed_by_whoever_gives_them(stage: Stage, job: int) -> None:
    operator = stage.app.desk(await held_by(stage.app, "operator"))
    with pytest.raises(Forbidden, match="jobs:submit_as"):
        await operator.jobs.cancel(job, by="grace")
    await operator.jobs.cancel(job)
    admin = stage.app.desk(await held_by(stage.app, "platform_admin"))
    await admin.jobs.retry(job, by="grace")
    await stage.app.jobs.cancel(job)
    acts = (await stage.app.jobs.history(job)).acts
    assert [(act.verb, act.by) for act in acts] == [("cancel", "ada"), ("retry", "grace"), ("cancel", None)]
