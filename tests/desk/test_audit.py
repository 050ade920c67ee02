"""One line per change: who, what, before and after."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from rowlock import JobNotFound, Permission, Principal, WrongState
from rowlock.flow.enqueue.wake import Waker
from rowlock.model.access import ALL
from rowlock.upkeep.duty import DutyContext
from rowlock.upkeep.prune import prune

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

    from rowlock.model.access import Entry

ADA = Principal("ada", "acme", ALL)


def told(entry: Entry) -> tuple[str, Any, Any]:
    return entry.action, entry.before, entry.after


async def test_an_order_leaves_who_what_before_and_after(desk: Desk) -> None:
    jobs = desk.app.desk(ADA, request_id="r1", address="192.0.2.1").jobs
    job = await desk.store.enqueue(tenant="acme", approval=True)
    await jobs.reprioritise(job, 7, note="urgent")
    await jobs.approve(job)
    await desk.store.claim(await desk.worker(), job)
    await jobs.cancel(job)
    await jobs.stop(job)
    await jobs.retry(job, by="grace")
    await jobs.cancel_many([job])
    public = (await jobs.delete(job)).public_id
    entries = await desk.app.audit.list(job_id=job)
    assert [told(entry) for entry in reversed(entries)] == [
        ("job.priority", {"state": "pending", "priority": 0}, {"state": "pending", "priority": 7}),
        ("job.approve", {"state": "pending"}, {"state": "queued", "approvers": ["ada"]}),
        ("job.cancel", {"state": "running"}, {"state": "running", "cancel_requested": True}),
        ("job.stop", {"state": "running"}, {"state": "cancelled"}),
        ("job.retry", {"state": "cancelled"}, {"state": "queued"}),
        ("job.cancel", {"state": "queued"}, {"state": "cancelled"}),
        ("job.delete", {"state": "cancelled"}, None),
    ]
    first, retry = entries[-1], entries[2]
    who = (first.subject, first.kind, first.tenant, first.request_id, first.address, first.note)
    assert who == ("ada", "user", "acme", "r1", "192.0.2.1", "urgent")
    assert {entry.target for entry in entries} == {f"job:{public}"}
    assert (retry.subject, retry.acting_for) == ("ada", "grace")
    assert await desk.app.audit.list(target=f"job:{public}") == entries


async def test_what_changed_nothing_leaves_no_line(desk: Desk) -> None:
    job = await desk.store.enqueue(tenant="globex")
    with pytest.raises(WrongState):
        await desk.app.jobs.approve(job)
    with pytest.raises(JobNotFound):
        await desk.app.desk(Principal("eve", "acme", ALL - {Permission.READ_ALL})).jobs.cancel(job)
    await desk.app.lanes.create("default")
    await desk.app.lanes.create("default")
    assert [entry.action for entry in await desk.app.audit.list()] == ["lane.create"]


async def test_other_changes_leave_a_line_too(desk: Desk) -> None:
    mine = desk.app.desk(ADA)
    await mine.lanes.create("bulk", slots=3)
    await mine.lanes.set("bulk", slots=4, poll_interval="2s")
    await mine.lanes.drain("bulk")
    await mine.lanes.delete("bulk")
    worker = await desk.worker("clerk")
    await mine.workers.drain("clerk")
    await mine.roles.set("mine", ["jobs:read"])
    await mine.roles.grant("grace", "mine")
    await mine.roles.revoke("grace", "mine")
    await mine.roles.delete("mine")
    token = (await mine.tokens.create("ci", permissions=["jobs:read"])).token
    await mine.tokens.revoke(token.id)
    rule = await mine.approvals.add_rule(kind="pay", note="pennies")
    await mine.approvals.remove_rule(rule.id)
    entries = list(reversed(await desk.app.audit.list()))
    assert [(entry.action, entry.target) for entry in entries] == [
        ("lane.create", "lane:bulk"),
        ("lane.set", "lane:bulk"),
        ("lane.set", "lane:bulk"),
        ("lane.delete", "lane:bulk"),
        ("worker.drain", f"worker:{worker}"),
        ("role.set", "role:mine"),
        ("role.grant", "role:mine"),
        ("role.revoke", "role:mine"),
        ("role.delete", "role:mine"),
        ("token.create", f"token:{token.id}"),
        ("token.revoke", f"token:{token.id}"),
        ("rule.add", f"rule:{rule.id}"),
        ("rule.remove", f"rule:{rule.id}"),
    ]
    assert told(entries[1])[1:] == (
        {"slots": 3, "poll_interval": 5.0},
        {"slots": 4, "poll_interval": 2.0},
    )
    assert told(entries[2])[1:] == ({"enabled": True}, {"enabled": False})
    assert told(entries[5])[1:] == (None, {"permissions": ["jobs:read"]})
    assert entries[-2].after == entries[-1].before
    assert (entries[-2].after or {})["kind"] == "pay"
    assert {entry.subject for entry in entries} == {"ada"}


async def test_pages_and_filters(desk: Desk) -> None:
    for n in range(5):
        await desk.app.lanes.create(f"l{n}")
    await desk.app.desk(ADA).lanes.create("mine")
    newest = await desk.app.audit.list(limit=4)
    rest = await desk.app.audit.list(before=newest[-1].id)
    assert [entry.target for entry in (*newest, *rest)] == ["lane:mine", *(f"lane:l{n}" for n in (4, 3, 2, 1, 0))]
    assert [entry.target for entry in await desk.app.audit.list(subject="ada")] == ["lane:mine"]
    assert len(await desk.app.audit.list(action="lane.create", since=newest[-1].at)) == 4
    seen = Principal("eve", "acme", frozenset({Permission.AUDIT_READ}))
    assert [entry.subject for entry in await desk.app.desk(seen).audit.list()] == ["ada"]


async def test_the_audit_has_a_retention_of_its_own(desk: Desk) -> None:
    await desk.app.lanes.create("old")
    await desk.store.execute("UPDATE {s}.audit SET at = now() - interval '366 days'")
    await desk.app.lanes.create("young")
    token = await desk.app.tokens.create("ada", roles=["user"])
    await desk.app.identity.log_in(token.text)
    await desk.store.execute("UPDATE {s}.sessions SET seen_at = now() - interval '9 h'")
    await desk.store.execute("INSERT INTO {s}.login_failures VALUES ('x', 3, now() - interval '1 h'), ('y', 1, now())")
    database = desk.app.database()
    for keep, left in ((None, 4), (timedelta(days=365), 3)):
        settings = type(desk.app.settings)(audit_keep=keep)
        await prune(DutyContext(database, settings, Waker(database)), None)  # type: ignore[arg-type]  # no news
        assert len(await desk.app.audit.list()) == left
    assert await desk.store.value("SELECT count(*) FROM {s}.sessions") == 0
    assert await desk.store.value("SELECT array_agg(key) FROM {s}.login_failures") == ["y"]
