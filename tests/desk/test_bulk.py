from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import opened
from tests.waiting import eventually

from rowlock import Principal, Rowlock
from rowlock.desk import operation_driver
from rowlock.desk.search import JobSearch
from rowlock.errors import BulkRefused, Forbidden, InvalidOption, OperationNotFound, WrongState
from rowlock.flow.enqueue.wake import Waker
from rowlock.model.access import Permission
from rowlock.settings import Settings
from rowlock.upkeep.duty import DutyContext
from rowlock.upkeep.repair import operations

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

    from rowlock.model.operation import Operation


async def started(app: Rowlock, action: Any, search: str, **more: Any) -> Operation:  # noqa: ANN401 - the desk's own
    seen = await app.jobs.bulk(action, search=search, dry_run=True, **more)
    expected = seen.count.value if seen.count else 0
    return await app.jobs.bulk(action, search=search, filter_hash=seen.filter_hash, expected_max=expected, **more)


async def finished(app: Rowlock, operation: Operation) -> Operation:
    assert operation.id is not None
    return await app.operations.wait(operation.id, timeout=20)


async def filled(desk: Desk, n: int, columns: str = "kind", values: str = "'k'") -> None:
    await desk.store.execute(f"INSERT INTO rowlock.jobs ({columns}) SELECT {values} FROM generate_series(1, {n}) n")


async def counts(desk: Desk) -> dict[str, int]:
    rows = await desk.store.connection.fetch("SELECT state, count(*) AS n FROM rowlock.jobs GROUP BY 1")
    return {row["state"]: row["n"] for row in rows}


async def test_a_dry_run_tells_how_many_and_which_and_changes_nothing(desk: Desk) -> None:
    await filled(desk, 7)
    seen = await desk.app.jobs.bulk("cancel", search="kind:k id:1,2,3,4,5,6", dry_run=True)
    assert (seen.state, seen.id, str(seen.count)) == ("preview", None, "6")
    assert [job.id for job in seen.samples] == [6, 5, 4, 3, 2]
    assert await counts(desk) == {"queued": 7}
    named = await desk.app.jobs.bulk("cancel", ids=[3, 3, 99], dry_run=True)
    assert (str(named.count), [job.id for job in named.samples]) == ("1", [3])


async def test_an_order_runs_in_batches_and_says_how_far_it_is(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_driver, "BATCH", 10)
    await filled(desk, 35)
    await filled(desk, 5, "kind, tags", "'k', '{keep}'")
    started_ = await started(desk.app, "cancel", "kind:k -tag:keep", by="ada", note="clean up")
    assert (started_.state, started_.expected_max) == ("running", 35)
    done = await finished(desk.app, started_)
    assert (done.state, done.done, done.skipped, done.failed, done.by) == ("completed", 35, 0, 0, "ada")
    assert done.finished_at is not None
    assert await counts(desk) == {"cancelled": 35, "queued": 5}
    (act,) = (await desk.app.jobs.history(1)).acts
    assert (act.verb, act.by, act.note) == ("cancel", "ada", "clean up")
    assert [one.id for one in await desk.app.operations.list()] == [done.id]


@pytest.mark.parametrize(
    ("action", "more", "search", "before", "after"),
    [
        ("retry", {}, "state:failed", "failed", "queued"),
        ("approve", {"by": "ada"}, "state:pending", "pending", "queued"),
        ("reject", {}, "state:pending", "pending", "cancelled"),
        ("priority", {"priority": 7}, "priority:7", "queued", "queued"),
        ("delete", {}, "state:completed", "completed", None),
    ],
)
async def test_every_action(  # noqa: PLR0917 - a table
    desk: Desk, action: str, more: dict[str, Any], search: str, before: str, after: str | None
) -> None:
    final = before in {"failed", "completed"}
    await filled(
        desk,
        3,
        "kind, state, approval, finished_at",
        f"'k', '{before}', {int(before == 'pending')}, {'now()' if final else 'NULL'}",
    )
    order = {"priority": more["priority"]} if "priority" in more else {}
    named = "kind:k" if action == "priority" else search
    seen = await desk.app.jobs.bulk(action, search=named, dry_run=True, **order)  # type: ignore[arg-type]
    ran = await desk.app.jobs.bulk(action, search=named, filter_hash=seen.filter_hash, expected_max=3, **more)  # type: ignore[arg-type]
    done = await finished(desk.app, ran)
    assert (done.state, done.done) == ("completed", 3)
    assert await counts(desk) == ({after: 3} if after else {})
    if action == "priority":
        assert (await desk.app.jobs.search(search)).count.value == 3


async def test_what_was_not_previewed_is_not_ordered(desk: Desk) -> None:
    await filled(desk, 3)
    jobs = desk.app.jobs
    seen = await jobs.bulk("cancel", search="kind:k", dry_run=True)
    with pytest.raises(BulkRefused, match="dry_run=True first"):
        await jobs.bulk("cancel", search="kind:k")
    with pytest.raises(BulkRefused, match="another order"):
        await jobs.bulk("cancel", search="kind:*", filter_hash=seen.filter_hash, expected_max=3)
    with pytest.raises(BulkRefused, match="another order"):
        await jobs.bulk("delete", search="kind:k", filter_hash=seen.filter_hash, expected_max=3)
    with pytest.raises(BulkRefused, match="another order"):
        await jobs.bulk("cancel", ids=[1], filter_hash=seen.filter_hash, expected_max=3)
    with pytest.raises(BulkRefused, match="3 jobs fit by now, more than the 2"):
        await jobs.bulk("cancel", search="kind:k", filter_hash=seen.filter_hash, expected_max=2)
    with pytest.raises(InvalidOption, match="Pass one of them"):
        await jobs.bulk("cancel", dry_run=True)
    with pytest.raises(InvalidOption, match="needs priority="):
        await jobs.bulk("priority", search="kind:k", dry_run=True)
    with pytest.raises(InvalidOption, match="no bulk action 'stop'"):
        await jobs.bulk("stop", search="kind:k", dry_run=True)  # type: ignore[arg-type]
    named = await jobs.bulk("cancel", ids=[1, 2], dry_run=True)
    with pytest.raises(BulkRefused, match="another order"):
        await jobs.bulk("cancel", ids=[1, 3], filter_hash=named.filter_hash, expected_max=2)
    low = await jobs.bulk("priority", search="kind:k", priority=1, dry_run=True)
    with pytest.raises(BulkRefused, match="another order"):
        await jobs.bulk("priority", search="kind:k", priority=9, filter_hash=low.filter_hash, expected_max=3)
    assert await counts(desk) == {"queued": 3}


async def test_jobs_that_come_later_and_jobs_beyond_the_expected_are_left_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_driver, "BATCH", 2)
    await filled(desk, 3)
    driver, row = await taken(desk, "cancel", "kind:k", expected_max=3)
    await filled(desk, 4)
    await driver.to_end(row)
    assert await counts(desk) == {"cancelled": 3, "queued": 4}
    driver, row = await taken(desk, "cancel", "state:queued", expected_max=3)
    await driver.to_end(row)
    over = await desk.app.operations.get(row["id"])
    assert (over.state, over.done) == ("failed", 3)
    assert "more than the expected 3" in (over.error or "")
    assert await counts(desk) == {"cancelled": 6, "queued": 1}


async def taken(
    desk: Desk, action: str, search: str, expected_max: int, who: Principal | None = None
) -> tuple[operation_driver.OperationDriver, Any]:
    """An operation that nobody drives yet."""
    database = desk.app.database()
    guard = desk.app.desk(who or Principal("s", permissions=frozenset(Permission), kind="system")).guard
    row = await desk.store.one(
        "operation_add",
        action=action,
        search=search,
        ids=None,
        priority=None,
        filter_hash="",
        expected_max=expected_max,
        as_of=await desk.store.clock(),
        principal=await operation_driver.stored(database, guard),
        **guard.signed("start", None, None),
    )
    return operation_driver.OperationDriver(lambda: database, lambda _: None), row


async def test_a_job_that_changed_meanwhile_is_left_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(desk, 2)
    driver, row = await taken(desk, "cancel", "state:queued", expected_max=9)
    find = JobSearch.find

    async def later(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as it is
        found = await find(*args, **kwargs)
        await desk.store.execute("UPDATE rowlock.jobs SET state = 'running', claimed_by = 1 WHERE id = 1")
        return found

    monkeypatch.setattr(JobSearch, "find", later)
    await driver.to_end(row)
    done = await desk.app.operations.get(row["id"])
    assert (done.state, done.done, done.skipped) == ("completed", 1, 1)
    assert not (await desk.app.jobs.get(1)).cancel_requested


async def test_two_drivers_count_and_order_every_job_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_driver, "BATCH", 5)
    await filled(desk, 40, "kind, state, finished_at", "'k', 'failed', now()")
    driver, row = await taken(desk, "retry", "kind:k", expected_max=40)
    await asyncio.gather(*(driver.to_end(row) for _ in range(3)))
    done = await desk.app.operations.get(row["id"])
    assert (done.state, done.done, done.skipped) == ("completed", 40, 0)
    assert await desk.store.value("SELECT count(*) FROM rowlock.job_acts") == 40


REFUSES = """
CREATE FUNCTION public.picky() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF OLD.id = 13 THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;
CREATE TRIGGER picky BEFORE UPDATE ON rowlock.jobs FOR EACH ROW EXECUTE FUNCTION public.picky()
"""


async def test_a_row_that_another_transaction_holds_is_left_and_named(desk: Desk, database_url: str) -> None:
    await filled(desk, 30)
    async with opened(database_url) as other, other.connection.transaction():
        await other.value("SELECT id FROM {s}.jobs WHERE id = 13 FOR UPDATE")
        done = await finished(desk.app, await started(desk.app, "cancel", "kind:k"))
        assert (done.state, done.done, done.failed) == ("completed", 29, 1)
        assert done.error is not None
        assert "another transaction holds 1 job, which was left alone: process" in done.error
        assert await counts(desk) == {"queued": 1, "cancelled": 29}


async def test_a_row_that_a_trigger_refuses_is_left_alone_and_no_other(desk: Desk) -> None:
    await filled(desk, 30)
    await desk.store.execute(REFUSES)
    done = await finished(desk.app, await started(desk.app, "cancel", "kind:k"))
    assert (done.state, done.done, done.failed) == ("completed", 29, 1)
    assert done.error is not None
    assert "not this one" in done.error


@pytest.mark.parametrize("fault", ["held", "refused"])
async def test_an_order_for_named_jobs_leaves_only_the_one_that_cannot_be_written(
    desk: Desk, database_url: str, fault: str
) -> None:
    await filled(desk, 30)
    async with opened(database_url) as other, other.connection.transaction():
        if fault == "held":
            await other.value("SELECT id FROM {s}.jobs WHERE id = 13 FOR UPDATE")
        else:
            await desk.store.execute(REFUSES)
        bulk = await desk.app.jobs.cancel_many(range(1, 31))
    assert [job.id for job in bulk.changed] == [number for number in range(1, 31) if number != 13]
    assert list(bulk.refused) == [13]
    assert ("another transaction holds it: process" if fault == "held" else "not this one") in bulk.refused[13]


async def test_a_cancelled_operation_stops(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_driver, "BATCH", 2)
    await filled(desk, 6)
    driver, row = await taken(desk, "cancel", "kind:k", expected_max=6)
    row = await driver.step(row)
    assert (await desk.app.operations.cancel(row["id"])).state == "cancelled"
    await driver.to_end(row)
    assert await counts(desk) == {"cancelled": 2, "queued": 4}
    with pytest.raises(WrongState, match="it is cancelled already"):
        await desk.app.operations.cancel(row["id"])
    with pytest.raises(OperationNotFound):
        await desk.app.operations.get(99)


async def test_upkeep_takes_over_what_its_process_left(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_driver, "BATCH", 2)
    await filled(desk, 5)
    _, row = await taken(desk, "cancel", "kind:k", expected_max=5)
    database = desk.app.database()
    at = DutyContext(database, Settings(), Waker(database))
    assert await operations(at, None) == 0  # type: ignore[arg-type]  # somebody drives it
    await desk.store.fetch("operation_leave", ids=[row["id"]])
    assert await operations(at, None) == 5  # type: ignore[arg-type]  # takes no news
    assert (await desk.app.operations.get(row["id"])).state == "completed"


async def test_a_process_that_leaves_hands_its_operations_over(desk: Desk, database_url: str) -> None:
    await filled(desk, 1)
    other = Rowlock(database_url)
    async with opened(database_url) as holder, holder.connection.transaction():
        # The rows that the order writes beside the job: a job row that is held would be left alone.
        await holder.execute("LOCK TABLE {s}.job_acts IN SHARE MODE")
        operation = await started(other, "cancel", "kind:k")
        waits = "wait_event_type = 'Lock' AND datname = current_database()"
        await eventually(lambda: desk.store.value(f"SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE {waits})"))
        await other.close()
        assert await desk.store.value("SELECT driven_until <= clock_timestamp() FROM rowlock.operations")
    assert (await desk.app.operations.get(operation.id or 0)).state == "running"


async def test_an_order_needs_its_own_permission_and_reaches_only_what_is_in_sight(desk: Desk) -> None:
    await filled(desk, 2, "kind, tenant", "'k', 'acme'")
    await filled(desk, 2, "kind, tenant", "'k', 'other'")
    reader = Principal("ada", tenant="acme", permissions=frozenset({Permission.READ}))
    with pytest.raises(Forbidden):
        await desk.app.desk(reader).jobs.bulk("cancel", search="kind:k", dry_run=True)
    able = Principal("ada", tenant="acme", permissions=frozenset({Permission.READ, Permission.CANCEL}))
    jobs = desk.app.desk(able).jobs
    seen = await jobs.bulk("cancel", search="kind:k", dry_run=True)
    assert str(seen.count) == "2"
    operation = await jobs.bulk("cancel", search="kind:k", filter_hash=seen.filter_hash, expected_max=2)
    done = await finished(desk.app, operation)
    assert (done.state, done.done, done.by) == ("completed", 2, "ada")
    assert await desk.store.states(1, 2, 3, 4) == ["cancelled", "cancelled", "queued", "queued"]
    stranger = Principal("eve", tenant="other", permissions=frozenset({Permission.READ, Permission.CANCEL}))
    with pytest.raises(OperationNotFound):
        await desk.app.desk(stranger).operations.get(done.id or 0)
    principal = json.loads(await desk.store.value("SELECT principal FROM rowlock.operations"))
    assert principal["subject"] == "ada"


async def test_who_may_not_give_an_order_may_not_stop_one_either(desk: Desk) -> None:
    _, row = await taken(desk, "delete", "kind:k", expected_max=6)
    reads = frozenset({Permission.READ, Permission.READ_ALL, Permission.CANCEL})
    with pytest.raises(Forbidden, match="jobs:delete"):
        await desk.app.desk(Principal("eve", permissions=reads)).operations.cancel(row["id"])
    assert (await desk.app.operations.get(row["id"])).state == "running"
    holder = Principal("ada", permissions=reads | {Permission.DELETE})
    assert (await desk.app.desk(holder).operations.cancel(row["id"])).state == "cancelled"


async def test_start_and_cancel_leave_a_line_in_the_audit(desk: Desk) -> None:
    await filled(desk, 2)
    started_ = await started(desk.app, "cancel", "kind:k", by="ada", note="clean up")
    await finished(desk.app, started_)
    (line,) = await desk.app.audit.list(target=f"operation:{started_.id}")
    assert (line.action, line.acting_for, line.note, line.before) == ("operation.start", "ada", "clean up", None)
    told = {"state": "running", "action": "cancel", "search": "kind:k", "expected_max": 2, "done": 0}
    assert line.after == told
    _, row = await taken(desk, "cancel", "kind:k", expected_max=6)
    await desk.app.operations.cancel(row["id"], by="bob", note="no")
    (line,) = await desk.app.audit.list(action="operation.cancel")
    assert (line.target, line.acting_for, line.note) == (f"operation:{row['id']}", "bob", "no")
    assert (line.before, (line.after or {})["state"]) == ({"state": "running"}, "cancelled")


async def _token(desk: Desk) -> tuple[Principal, str]:
    made = await desk.app.tokens.create("ci", subject="ci", roles=["cleaner"])
    return await desk.app.identity.by_token(made.text), made.token.id


@pytest.mark.parametrize(
    ("who", "change", "error"),
    [
        (
            "role",
            "UPDATE {s}.roles SET permissions = '{jobs:read}' WHERE name = 'cleaner'",
            "lacks the permission jobs:",
        ),
        ("grant", "DELETE FROM {s}.role_grants", "ada lacks the permission jobs:"),
        ("token", "UPDATE {s}.tokens SET revoked_at = now()", "the token of ci does not hold any more"),
        ("token", "DELETE FROM {s}.roles WHERE name = 'cleaner'", "ci lacks the permission jobs:"),
        ("own", "DELETE FROM {s}.roles", None),
    ],
)
async def test_an_order_outlives_neither_its_role_nor_its_token(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, who: str, change: str, error: str | None
) -> None:
    monkeypatch.setattr(operation_driver, "BATCH", 2)
    await filled(desk, 6)
    await desk.app.roles.set("cleaner", ["jobs:read", "jobs:read_all", "jobs:cancel"])
    held = frozenset({Permission.READ, Permission.READ_ALL, Permission.CANCEL})
    if who == "grant":
        await desk.app.roles.grant("ada", "cleaner")
    principals = {
        "role": lambda: desk.app.identity.of("ada", roles=["cleaner"]),
        "grant": lambda: desk.app.identity.of("ada"),
    }
    if who in principals:
        principal = await principals[who]()
    else:
        principal = (await _token(desk))[0] if who == "token" else Principal("ada", permissions=held)
    assert principal.permissions == held
    driver, row = await taken(desk, "cancel", "kind:k", 6, principal)
    row = await driver.step(row)
    assert (row["state"], row["done"]) == ("running", 2)
    await desk.store.execute(change)
    await driver.to_end(row)
    done = await desk.app.operations.get(row["id"])
    if error is None:
        assert (done.state, done.done) == ("completed", 6)
    else:
        assert (done.state, done.done) == ("failed", 2)
        assert error in (done.error or "")
        assert await counts(desk) == {"cancelled": 2, "queued": 4}


async def test_an_operation_leaves_a_job_that_is_held_and_orders_the_others(desk: Desk) -> None:
    await filled(desk, 6)
    async with opened(desk.store.database) as other, other.connection.transaction():
        await other.execute("SELECT 1 FROM {s}.jobs WHERE id = 3 FOR SHARE")
        done = await finished(desk.app, await started(desk.app, "cancel", "kind:k"))
    assert (done.done, done.skipped, done.failed) == (5, 0, 1)
    assert done.error is not None
    assert f"another transaction holds 1 job, which was left alone: process {other.pid}" in done.error
