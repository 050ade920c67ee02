"""One line per change: who, what, before and after."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr  # noqa: TC002 - Rowlock reads the annotation
from tests.factories import opened
from tests.waiting import in_time

from rowlock import InvalidOption, JobNotFound, Permission, Principal, WrongState
from rowlock.desk import audit
from rowlock.desk.guard import Guard
from rowlock.errors import WriteRefused
from rowlock.flow.enqueue.wake import Waker
from rowlock.model.access import ALL
from rowlock.upkeep.duty import DutyContext
from rowlock.upkeep.prune import prune

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

    from rowlock.model.access import Entry

ADA = Principal("ada", "acme", ALL)


def what_changed(entry: Entry) -> tuple[str, Any, Any]:
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
    assert [what_changed(entry) for entry in reversed(entries)] == [
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
    assert what_changed(entries[1])[1:] == (
        {"slots": 3, "poll_interval": 5.0},
        {"slots": 4, "poll_interval": 2.0},
    )
    assert what_changed(entries[2])[1:] == ({"enabled": True}, {"enabled": False})
    assert what_changed(entries[5])[1:] == (None, {"permissions": ["jobs:read"]})
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


# --- the chain of seals -----------------------------------------------------------------------------------------------


async def lines(desk: Desk, count: int = 5) -> None:
    """That many lines of the audit, sealed."""
    for number in range(count):
        await desk.app.roles.set(f"role{number}", ["jobs:read"])
    assert (await desk.app.audit.verify()).broken is None


async def test_a_chain_that_nobody_touched_holds(desk: Desk) -> None:
    empty = await desk.app.audit.verify()
    assert (empty.lines, empty.last, empty.broken) == (0, 0, None)
    await lines(desk, 3)
    first = await desk.app.audit.verify()
    assert (first.lines, first.first, first.last, first.broken) == (3, 1, 3, None)
    await lines(desk, 3)  # changes nothing, so it writes nothing
    await desk.app.roles.set("late", ["jobs:read"])
    later = await desk.app.audit.verify(f"{first.last}:{first.head}")
    assert (later.lines, later.last, later.broken) == (4, 4, None)


@pytest.mark.parametrize(
    ("tamper", "place", "reason"),
    [
        ("UPDATE {s}.audit SET subject = 'eve' WHERE id = 3", 3, "its line or its seal was changed"),
        ("UPDATE {s}.audit SET after = '{}' WHERE id = 3", 3, "its line or its seal was changed"),
        ("UPDATE {s}.audit SET at = at - interval '1 us' WHERE id = 3", 3, "its line or its seal was changed"),
        ("UPDATE {s}.audit_seals SET hash = sha256('x') WHERE n = 3", 3, "its line or its seal was changed"),
        ("DELETE FROM {s}.audit WHERE id = 3", 3, "its line was removed"),
        ("DELETE FROM {s}.audit WHERE id = 1", 1, "its line was removed"),
        ("DELETE FROM {s}.audit_seals WHERE n = 3", 3, "the seals 3 to 3 were removed"),
        ("DELETE FROM {s}.audit_seals WHERE n < 3", 1, "the seals 1 to 2 were removed, and not by retention"),
        ("DELETE FROM {s}.audit_seals WHERE n > 3", 4, "the chain ends at 3, and an earlier check saw 5"),
    ],
)
async def test_a_line_that_was_changed_or_removed_is_named(desk: Desk, tamper: str, place: int, reason: str) -> None:
    await lines(desk)
    before = await desk.app.audit.verify()
    await desk.store.execute(tamper)
    check = await desk.app.audit.verify(f"{before.last}:{before.head}")
    assert check.broken is not None
    assert (check.broken.n, check.broken.reason) == (place, reason)


async def test_a_chain_that_was_made_anew_does_not_have_the_head_of_before(desk: Desk) -> None:
    await lines(desk)
    before = await desk.app.audit.verify()
    await desk.store.execute("UPDATE {s}.audit SET subject = 'eve' WHERE id = 3")
    await desk.store.execute("DELETE FROM {s}.audit_seals")
    await desk.store.execute("INSERT INTO {s}.audit_unsealed SELECT id FROM {s}.audit")
    assert (await desk.app.audit.verify()).broken is None
    check = await desk.app.audit.verify(f"{before.last}:{before.head}")
    assert check.broken is not None
    assert "the chain was made anew" in check.broken.reason
    with pytest.raises(InvalidOption, match="head is PLACE:HASH"):
        await desk.app.audit.verify("5")


async def test_a_line_that_was_kept_from_its_seal_is_named(desk: Desk) -> None:
    await lines(desk)
    await desk.app.roles.set("late", ["jobs:read"])
    await desk.store.execute("DELETE FROM {s}.audit_unsealed")
    check = await desk.app.audit.verify()
    assert check.broken is not None
    assert (check.broken.entry_id, check.broken.reason) == (6, "it has no seal and waits for none")


async def test_lines_that_commit_late_and_sealers_that_meet_leave_one_chain(desk: Desk) -> None:
    database = desk.app.database()
    async with database.transaction() as late:
        await audit.record(late, Guard(ADA), "lane.set", "lane:late")
        await lines(desk, 3)
    others = [desk.app.roles.set(f"other{number}", ["jobs:read"]) for number in range(10)]
    await asyncio.gather(*others, *(desk.app.audit.verify() for _ in range(4)))
    check = await desk.app.audit.verify()
    assert (check.lines, check.broken) == (14, None)
    order = [sealed.entry.target for sealed in await desk.app.audit.export()]
    assert order.index("lane:late") == 3


async def test_a_sealer_waits_for_the_one_that_extends_the_chain(desk: Desk) -> None:
    await desk.app.roles.set("late", ["jobs:read"])
    async with opened(desk.store.database) as first, opened(desk.store.database) as second:
        async with first.connection.transaction():
            assert (await first.one("audit_seal", most=100))["sealed"] == 1
            other = await first.blocked(second, second.one("audit_seal", most=100))
        assert (await in_time(other))["sealed"] == 0
    check = await desk.app.audit.verify()
    assert (check.lines, check.broken) == (1, None)


async def test_an_export_can_be_checked_without_a_database(desk: Desk) -> None:
    await lines(desk, 3)
    first = await desk.app.audit.export(limit=2)
    exported = [*first, *await desk.app.audit.export(after=first[-1].n)]
    assert [sealed.n for sealed in exported] == [1, 2, 3]
    previous = ""
    for sealed in exported:
        assert sealed.previous == previous
        assert hashlib.sha256((previous + sealed.sealed_text).encode()).hexdigest() == sealed.hash
        assert sealed.entry.target in sealed.sealed_text
        previous = sealed.hash
    assert (await desk.app.audit.verify()).head == previous


async def test_retention_shortens_the_chain_and_leaves_it_whole(desk: Desk) -> None:
    await lines(desk)
    # As if these had been written long ago: sealed then, with that time.
    await desk.store.execute("UPDATE {s}.audit SET at = now() - interval '400 days' WHERE id <= 3")
    await desk.store.execute("DELETE FROM {s}.audit_seals")
    await desk.store.execute("INSERT INTO {s}.audit_unsealed SELECT id FROM {s}.audit")
    await desk.app.audit.verify()
    database = desk.app.database()
    await database.fetch("prune_audit", keep=timedelta(days=365), batch=1000)
    assert [entry.id for entry in await desk.app.audit.list()] == [5, 4]
    check = await desk.app.audit.verify()
    assert (check.lines, check.first, check.last, check.broken) == (2, 3, 5, None)
    await database.fetch("prune_audit", keep=timedelta(days=365), batch=1000)
    assert (await desk.app.audit.verify()) == check


# --- refusals, logins, readings ---------------------------------------------------------------------------------------


async def test_refusals_are_listed_up_to_a_limit_and_counted_beyond(desk: Desk) -> None:
    guard = Guard(ADA, address="192.0.2.9")
    for _ in range(audit.REFUSALS_LISTED + 15):
        await audit.record_refusal(desk.app.database(), guard, "route:/x", after={"permission": "jobs:edit"})
    listed = await desk.app.audit.list(action="access.refused", limit=100)
    assert len(listed) == audit.REFUSALS_LISTED
    await audit.record_refusal(desk.app.database(), Guard(ADA, address="192.0.2.10"), "route:/x", after={})
    assert len(await desk.app.audit.list(action="access.refused", limit=100)) == audit.REFUSALS_LISTED + 1
    await desk.store.execute("UPDATE {s}.login_failures SET since = now() - interval '10 min'")
    await audit.record_refusal(desk.app.database(), guard, "route:/x", after={"permission": "jobs:edit"})
    newest = (await desk.app.audit.list(action="access.refused"))[0]
    assert newest.after == {"permission": "jobs:edit", "unlisted": 15}


async def test_logins_that_succeed_and_fail_and_logouts_are_listed(desk: Desk) -> None:
    made = await desk.app.tokens.create("browser", roles=["user"])
    cookie, _ = await desk.app.identity.log_in(made.text, address="192.0.2.1")
    await desk.app.identity.log_out(cookie, address="192.0.2.1")
    await desk.app.tokens.revoke(made.token.id)
    for text in (made.text, "nonsense"):
        with pytest.raises(Exception, match="not valid"):
            await desk.app.identity.by_token(text, address="192.0.2.2")
    told_of = [(entry.action, entry.target, entry.subject, entry.address) for entry in await desk.app.audit.list()]
    assert told_of[0] == ("login.failed", "token:unknown", "unknown", "192.0.2.2")
    assert told_of[1] == ("login.failed", f"token:{made.token.id}", "unknown", "192.0.2.2")
    assert told_of[3] == ("session.close", f"token:{made.token.id}", "token:browser", "192.0.2.1")
    assert told_of[4] == ("session.open", f"token:{made.token.id}", "token:browser", "192.0.2.1")


async def test_who_reads_a_secret_is_listed_once_in_a_while(desk: Desk) -> None:
    @desk.app.job
    async def open_door(pin: SecretStr | None = None) -> None: ...

    secret = (await desk.app.jobs.submit("open_door", {"pin": "123456"}, tenant="acme")).job.id
    plain = (await desk.app.jobs.submit("open_door", {}, tenant="acme")).job.id
    asked = desk.app.desk(ADA)
    for _ in range(3):
        await asked.jobs.get(secret)
        await asked.jobs.get(plain)
    (line,) = await desk.app.audit.list(action="job.read_secrets")
    assert (line.subject, line.target.startswith("job:")) == ("ada", True)
    await desk.app.jobs.get(secret)  # the library itself gets the mask
    masked = desk.app.desk(Principal("bo", "acme", ALL - {Permission.READ_ARGS}))
    await masked.jobs.get(secret)
    assert len(await desk.app.audit.list(action="job.read_secrets")) == 1


async def test_results_with_secrets_leave_a_line_and_explanations_never_show_one(desk: Desk) -> None:
    @desk.app.job
    async def open_door(pin: SecretStr) -> None: ...

    job = (await desk.app.jobs.submit("open_door", {"pin": "123456"}, tenant="acme")).job.id
    asked = desk.app.desk(ADA)
    assert "123456" not in str(await asked.jobs.explain(job))
    assert "123456" not in repr(await asked.jobs.explain(job))
    assert not await desk.app.audit.list(action="job.read_secrets")
    await desk.store.connection.execute(
        "UPDATE rowlock.jobs SET state = 'completed', finished_at = now(), result = $2 WHERE id = $1",
        job,
        '{"key": {"$secret": "987654"}}',
    )
    assert "987654" in str(await asked.jobs.result(job))
    (line,) = await desk.app.audit.list(action="job.read_secrets")
    assert line.subject == "ada"
    await desk.app.jobs.result(job)  # the library itself: the program that awaits the job
    assert len(await desk.app.audit.list(action="job.read_secrets")) == 1


async def test_a_submission_and_its_line_are_one(desk: Desk) -> None:
    @desk.app.job
    async def greet() -> None: ...

    await desk.store.connection.execute(
        "ALTER TABLE rowlock.audit ADD CONSTRAINT no_submissions CHECK (action <> 'job.submit') NOT VALID"
    )
    with pytest.raises(WriteRefused, match="no_submissions"):
        await desk.app.desk(ADA).jobs.submit("greet")
    assert not await desk.app.jobs.list()


async def test_many_submissions_at_once_do_not_wait_for_each_others_connections(desk: Desk) -> None:
    @desk.app.job
    async def greet() -> None: ...

    # Each asks for what lanes demand, on a connection besides that of its transaction.
    async with asyncio.timeout(30):
        made = await asyncio.gather(*(desk.app.desk(ADA).jobs.submit("greet", priority=n % 10) for n in range(40)))
    assert len({each.job.id for each in made}) == 40
