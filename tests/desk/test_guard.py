"""Permissions with a scope: which jobs they reach, on every way to a job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rowlock import (
    BulkRefused,
    Forbidden,
    InvalidOption,
    JobNotFound,
    Permission,
    Principal,
    WorkflowNotFound,
    chain,
)
from rowlock.model.access import ALL, permissions_of

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

    from rowlock import Rowlock


@pytest.fixture
def app(app: Rowlock) -> Rowlock:
    @app.job("report.sales")
    async def sales(n: int = 1) -> int:
        return n

    @app.job("report.costs", aliases=["expenses"])
    async def costs(n: int = 1) -> int:
        return n

    @app.job("mail")
    async def mail(n: int = 1) -> int:
        return n

    return app


def person(*permissions: str, tenant: str | None = "acme", subject: str = "ada") -> Principal:
    return Principal(subject, tenant, permissions_of(permissions))


async def jobs_of(app: Rowlock, tenant: str = "acme") -> dict[str, int]:
    return {
        kind: (await app.jobs.submit(kind, {"n": 1}, tenant=tenant, submitted_by="bob")).job.id
        for kind in ("report.sales", "report.costs", "mail")
    }


async def seen_by(app: Rowlock, *permissions: str, tenant: str | None = "acme") -> set[tuple[str | None, str]]:
    page = await app.desk(person(*permissions, tenant=tenant)).jobs.search()
    assert page.count is not None
    assert page.count.value == len(page.items)
    return {(job.tenant, job.kind) for job in page.items}


async def test_grants_add_up_and_tenants_stay_apart(app: Rowlock) -> None:
    await jobs_of(app)
    await jobs_of(app, "globex")
    ours = {("acme", kind) for kind in ("report.sales", "report.costs", "mail")}
    assert await seen_by(app, "jobs:read") == ours
    assert await seen_by(app, "jobs:read@kind=report.*") == ours - {("acme", "mail")}
    assert await seen_by(app, "jobs:read@kind=report.sales", "jobs:read@kind=mail") == ours - {("acme", "report.costs")}
    everyone = {("globex", "report.sales"), ("globex", "report.costs")}
    assert await seen_by(app, "jobs:read", "jobs:read_all@kind=report.*") == ours | everyone
    assert await seen_by(app, "jobs:read@kind=mail", "jobs:read_all@kind=report.*") == {("acme", "mail")}
    assert await seen_by(app, "jobs:read@kind=report.s*", "jobs:read_all") == {
        ("acme", "report.sales"),
        ("globex", "report.sales"),
    }
    # A caller without a tenant and without jobs:read_all sees only what it submitted itself.
    assert await seen_by(app, "jobs:read@kind=report.*", tenant=None) == set()
    assert await seen_by(app, "jobs:read", "jobs:read_all@kind=mail", tenant=None) == {
        ("acme", "mail"),
        ("globex", "mail"),
    }


async def test_a_like_pattern_in_a_name_is_only_a_name(app: Rowlock) -> None:
    await jobs_of(app)
    assert await seen_by(app, "jobs:read@kind=%") == set()
    assert await seen_by(app, "jobs:read@kind=mai_") == set()
    assert await seen_by(app, "jobs:read@kind=rep%*") == set()


async def test_a_lane_is_the_one_that_took_the_job_or_would(desk: Desk) -> None:
    await desk.lane("bulk", kinds=("report.sales",))
    await desk.lane()
    made = await jobs_of(desk.app)
    assert await seen_by(desk.app, "jobs:read@lane=bulk") == {("acme", "report.sales")}
    assert await seen_by(desk.app, "jobs:read@lane=default,kind=m*") == {("acme", "mail")}
    await desk.store.claim(await desk.store.worker(), made["mail"], lane="bulk")
    assert await seen_by(desk.app, "jobs:read@lane=bulk") == {("acme", "report.sales"), ("acme", "mail")}


async def test_an_order_outside_the_scope_is_refused_or_unknown(app: Rowlock) -> None:
    made = await jobs_of(app)
    reader = app.desk(person("jobs:read", "jobs:cancel@kind=report.*", "jobs:edit@kind=report.*"))
    for order in (reader.jobs.cancel(made["mail"]), reader.jobs.edit(made["mail"], priority=3)):
        with pytest.raises(Forbidden, match=r"for kind=report\.\* only, not for job [\w-]+ of the kind 'mail'"):
            await order
    blind = app.desk(person("jobs:read@kind=report.*", "jobs:cancel@kind=report.*"))
    for job_method in (blind.jobs.cancel, blind.jobs.get, blind.jobs.explain):
        with pytest.raises(JobNotFound):
            await job_method(made["mail"])
    assert (await blind.jobs.cancel(made["report.sales"])).state == "cancelled"
    many = await blind.jobs.cancel_many([made["report.costs"], made["mail"]])
    assert [job.kind for job in many.changed] == ["report.costs"]
    assert (await app.jobs.get(made["mail"])).state == "queued"


async def test_what_may_not_be_read_is_left_out_of_the_answer_to_an_order(app: Rowlock) -> None:
    made = await jobs_of(app)
    desk = app.desk(person("jobs:read@kind=mail", "jobs:cancel"))
    assert (await desk.jobs.cancel(made["report.sales"])).args == {}
    assert (await desk.jobs.cancel(made["mail"])).args == {"n": 1}


async def test_a_bulk_order_reaches_what_may_be_read_and_ordered(app: Rowlock) -> None:
    made = await jobs_of(app)
    desk = app.desk(person("jobs:read@kind=report.*", "jobs:cancel@kind=report.sales", "jobs:cancel@kind=mail"))
    ways: list[dict[str, Any]] = [{"search": "state:queued"}, {"ids": list(made.values())}]
    for way in ways:
        seen = await desk.jobs.bulk("cancel", dry_run=True, **way)
        assert [job.kind for job in seen.samples] == ["report.sales"]
        assert seen.count is not None
        assert seen.count.value == 1
    begun = await desk.jobs.bulk("cancel", ids=list(made.values()), filter_hash=seen.filter_hash, expected_max=3)
    ended = await desk.operations.wait(begun.id or 0, timeout=30)
    assert (ended.state, ended.done) == ("completed", 1)
    assert [(await app.jobs.get(each)).state for each in made.values()] == ["cancelled", "queued", "queued"]


async def test_a_dry_run_counts_for_the_one_who_made_it_and_for_its_permissions(app: Rowlock) -> None:
    await jobs_of(app)
    ada = app.desk(person("jobs:read", "jobs:cancel"))
    seen = await ada.jobs.bulk("cancel", search="kind:mail", dry_run=True)
    others = (
        person("jobs:read", "jobs:cancel", subject="eve", tenant="acme"),
        person("jobs:read", "jobs:cancel", tenant="globex"),
        person("jobs:read", "jobs:read_all", "jobs:cancel"),
        person("jobs:read", "jobs:cancel@kind=m*"),
    )
    for who in others:
        with pytest.raises(BulkRefused, match="filter_hash"):
            await app.desk(who).jobs.bulk("cancel", search="kind:mail", filter_hash=seen.filter_hash, expected_max=5)
    begun = await ada.jobs.bulk("cancel", search="kind:mail", filter_hash=seen.filter_hash, expected_max=5)
    assert (await ada.operations.wait(begun.id or 0, timeout=30)).done == 1


async def test_submissions_outside_the_scope_leave_nothing(app: Rowlock) -> None:
    desk = app.desk(person("jobs:submit@kind=report.sales", "jobs:submit@kind=exp*", "jobs:read"))
    assert (await desk.jobs.submit("report.sales")).what == "created"
    mail = (await app.jobs.submit("mail", tenant="acme", submitted_by="ada")).job
    for attempt in (desk.jobs.submit("mail", {"wrong": 1}), desk.jobs.submit("expenses"), desk.jobs.clone(mail.id)):
        with pytest.raises(Forbidden, match="jobs:submit"):
            await attempt
    assert sorted(job.kind for job in await app.jobs.list()) == ["mail", "report.sales"]


async def test_a_workflow_is_within_reach_if_each_of_its_steps_is(app: Rowlock) -> None:
    sales: Any = app.task("report.sales")
    mail: Any = app.task("mail")
    flow = await chain(sales.step(n=1), mail.step(n=1)).enqueue()
    view = await app.workflows.get(flow.id)
    narrow = ("jobs:read_all", "jobs:read@kind=report.*", "jobs:retry@kind=report.*", "jobs:cancel@kind=report.*")
    desk = app.desk(person(*narrow))
    assert not (await desk.workflows.list()).items
    for order in (desk.workflows.get(flow.id), desk.workflows.cancel(flow.id), desk.workflows.retry(flow.id)):
        with pytest.raises(WorkflowNotFound):
            await order
    await app.workflows.cancel(flow.id)
    # Retrying the step that is within the scope would run the one behind it, too.
    with pytest.raises(Forbidden, match="every step"):
        await desk.jobs.retry(view.steps[0].job_id)
    both = app.desk(person(*narrow, *(f"{name}@kind=mail" for name in ("jobs:read", "jobs:retry"))))
    assert (await both.workflows.get(flow.id)).id == view.id
    assert (await both.jobs.retry(view.steps[0].job_id)).state == "queued"


async def test_a_lane_can_be_managed_alone(desk: Desk) -> None:
    await desk.lane("bulk", kinds=("report.sales",))
    await desk.lane()
    made = await jobs_of(desk.app)
    operator = desk.app.desk(person("workers:manage@lane=bulk"))
    assert (await operator.lanes.set("bulk", slots=3)).slots == 3
    assert not (await operator.lanes.drain("bulk")).enabled
    assert (await operator.workers.cancel_job(made["report.sales"])).state == "cancelled"
    for order in (
        operator.lanes.set("default", slots=3),
        operator.lanes.set("bulk", kinds=["report.sales", "mail"]),
        operator.lanes.delete("bulk"),
        operator.lanes.create("other"),
        operator.workers.drain("w"),
        operator.limits.delete_gate("g"),
        operator.lanes.list(),
    ):
        with pytest.raises(Forbidden):
            await order
    with pytest.raises(JobNotFound):
        await operator.workers.cancel_job(made["mail"])


async def test_schedules_of_some_kinds(app: Rowlock) -> None:
    await app.schedules.create("mails", "mail", every="1h", tenant="acme")
    desk = app.desk(person("schedules:view@kind=report.*", "schedules:manage@kind=report.*"))
    assert not await desk.schedules.list()
    await desk.schedules.create("sales", "report.sales", every="1h")
    assert [each.name for each in await desk.schedules.list()] == ["sales"]
    for order in (desk.schedules.create("m", "mail", every="1h"), desk.schedules.edit("sales", kind="mail")):
        with pytest.raises(Forbidden, match="not for the kind 'mail'"):
            await order


async def test_a_feed_tells_of_jobs_within_the_scope(app: Rowlock) -> None:
    listener = await app.desk(person("jobs:read@kind=report.*")).streams.listen()
    try:
        await listener.next(timeout=30)
        await jobs_of(app, "globex")
        made = await jobs_of(app)
        told: set[str] = set()
        async with asyncio.timeout(30):
            while len(told) < 2:
                for frame in await listener.next():
                    changes: Any = frame.data.get("changes", ())
                    told |= {change["kind"] for change in changes}
        assert told == {"report.sales", "report.costs"}
        assert made
    finally:
        listener.close()


async def test_nobody_gives_more_than_they_hold(app: Rowlock) -> None:
    admin = app.desk(person("tokens:manage", "jobs:cancel@kind=report.*", "workers:manage@lane=bulk", tenant=None))
    for allowed in ("jobs:cancel@kind=report.*", "jobs:cancel@kind=report.sales", "jobs:cancel@kind=report.*,lane=x"):
        assert (await admin.tokens.create("ci", permissions=[allowed])).token.permissions
    for wider in (
        "jobs:cancel",
        "jobs:cancel@kind=rep*",
        "jobs:cancel@lane=x",
        "workers:manage",
        "jobs:read@kind=report.x",
    ):
        with pytest.raises(Forbidden, match="does not hold"):
            await admin.tokens.create("ci", permissions=[wider])
        with pytest.raises(Forbidden, match="does not hold"):
            await admin.roles.set("r", [wider])


async def test_a_token_and_a_role_keep_their_scopes(app: Rowlock) -> None:
    await app.roles.set("reporter", ["jobs:submit@kind=report.*"])
    made = await app.tokens.create("ci", permissions=["jobs:read@lane=bulk,kind=report.*"], roles=["reporter"])
    who = await app.identity.by_token(made.text)
    assert who.permissions == {"jobs:submit@kind=report.*", "jobs:read@kind=report.*,lane=bulk"}
    assert not who.may(Permission.SUBMIT)
    assert ALL - who.permissions == ALL


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("audit:read@kind=a", "audit:read holds for everything. Scopes can be given to jobs:read, "),
        ("jobs:read_args@kind=a", "workers:manage by lane"),
        ("workers:manage@kind=a", "behind workers:manage@ stand lane=…"),
        ("jobs:read@", "behind jobs:read@ stand kind=… and lane=…"),
        ("jobs:read@tenant=a", "behind jobs:read@ stand kind=… and lane=…"),
        ("jobs:read@kind=a,kind=b", "each once at most"),
        ("jobs:read@kind=*", "its beginning and a *"),
        ("jobs:read@kind=a*b", "its beginning and a *"),
        ("jobs:read@kind=", "its beginning and a *"),
        ("jobs:fly@kind=a", "There is no permission"),
    ],
)
async def test_a_scope_that_cannot_be_is_refused_when_it_is_written(app: Rowlock, text: str, why: str) -> None:
    for attempt in (app.roles.set("r", [text]), app.tokens.create("t", permissions=[text])):
        with pytest.raises(InvalidOption) as refused:
            await attempt
        assert why in str(refused.value)
