"""A call that changes nothing leaves no trace: no version, no line in the audit, no event, no moved job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from tests.factories import rate
from tests.waiting import until

from rowlock import Rate
from rowlock.model.access import ALL, Principal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.desk.conftest import Desk as Stage

    from rowlock.desk.access import Desk

LATER = datetime(2100, 1, 1, tzinfo=UTC)
TABLES = (
    "lanes",
    "gates",
    "rates",
    "webhooks",
    "retention",
    "schedules",
    "roles",
    "role_grants",
    "tokens",
    "workers",
    "jobs",
    "job_acts",
    "audit",
)
ROOT = Principal("root", permissions=ALL)


async def prioritised(desk: Desk, job: int) -> None:
    seen = await desk.jobs.bulk("priority", ids=[job], priority=12, dry_run=True)
    begun = await desk.jobs.bulk("priority", ids=[job], priority=12, filter_hash=seen.filter_hash, expected_max=1)
    done = await desk.operations.wait(begun.id or 0, timeout=30)
    assert done.done == 1


# Each is called twice: the first call may change something, the second has nothing left to change.
CALLS: dict[str, Callable[[Desk, int], Awaitable[object]]] = {
    "lanes.set": lambda d, _: d.lanes.set(
        "front",
        kinds=["k"],
        slots=3,
        max_total=7,
        order="strict",
        poll_interval="3s",
        heartbeat_timeout="90s",
        progress_timeout="2m",
        requires_approval=False,
        enabled=True,
        rate="10/s",
        aging_interval="1m",
    ),
    "lanes.set without a value": lambda d, _: d.lanes.set("front"),
    "lanes.set that removes": lambda d, _: d.lanes.set(
        "front", max_total=-1, rate="off", progress_timeout=0, aging_interval=0
    ),
    "lanes.drain": lambda d, _: d.lanes.drain("front"),
    "lanes.resume": lambda d, _: d.lanes.resume("front"),
    "lanes.create": lambda d, _: d.lanes.create("front"),
    "retention.set": lambda d, _: d.retention.set("*", "3d"),
    "retention.reset": lambda d, _: d.retention.reset("*"),
    "webhooks.change": lambda d, _: d.webhooks.change(
        1,
        url="https://example.com/other",
        kinds=["a", "b.*"],
        states=["failed"],
        include=["args"],
        description="to the shop",
        enabled=False,
    ),
    "webhooks.change that removes": lambda d, _: d.webhooks.change(1, include=[], description="", enabled=True),
    "limits.set_gate": lambda d, _: d.limits.set_gate("g", limit=4, fifo=True),
    "limits.set_rate": lambda d, _: d.limits.set_rate("r", "10/s"),
    "limits.pause": lambda d, _: d.limits.pause("r", until=LATER),
    "limits.resume": lambda d, _: d.limits.resume("r"),
    "schedules.edit": lambda d, _: d.schedules.edit("s", every="2h", overlap="skip", args={"name": "Bo"}),
    "schedules.pause": lambda d, _: d.schedules.pause("s"),
    "schedules.resume": lambda d, _: d.schedules.resume("s"),
    "roles.set": lambda d, _: d.roles.set("mine", ["jobs:read"]),
    "roles.grant": lambda d, _: d.roles.grant("ada", "user"),
    "workers.drain": lambda d, _: d.workers.drain("w"),
    "jobs.edit": lambda d, job: d.jobs.edit(job, args={"name": "Bo"}, tags=["a"], priority=5, run_at=LATER),
    "jobs.reprioritise": lambda d, job: d.jobs.reprioritise(job, 9),
    "workers.reprioritise_job": lambda d, job: d.workers.reprioritise_job(job, 11),
    "bulk priority": prioritised,
}


async def picture(stage: Stage) -> dict[str, object]:
    return {
        table: await stage.store.value(f"SELECT jsonb_agg(to_jsonb(t) ORDER BY to_jsonb(t)::text) FROM {{s}}.{table} t")
        for table in TABLES
    }


@pytest.fixture
async def job(desk: Stage) -> int:
    @desk.app.job
    async def greet(name: str) -> str:
        return name

    await desk.app.lanes.create("front", kinds=["k"])
    await desk.worker("w")
    await desk.app.webhooks.add("https://example.com/hooks", include=["result"], description="first")
    await desk.store.gate("g")
    await rate(desk.store, "r", Rate(1))
    await desk.app.schedules.create("s", "greet", every="1h", args={"name": "Ada"})
    return (await desk.app.jobs.submit("greet", {"name": "Ada"}, run_in="1h")).job.id


@pytest.mark.parametrize("call", CALLS)
async def test_the_second_of_two_equal_calls_leaves_no_trace(desk: Stage, job: int, call: str) -> None:
    asked = desk.app.desk(ROOT)
    await CALLS[call](asked, job)
    before = await picture(desk)
    heard: list[object] = []
    await desk.store.connection.add_listener(desk.app.database().channel, lambda *heard_of: heard.append(heard_of))
    await CALLS[call](asked, job)
    await desk.store.connection.execute("SELECT pg_notify($1, 'the end')", desk.app.database().channel)
    await until(lambda: any("the end" in str(message) for message in heard))
    after = await picture(desk)
    if call == "bulk priority":
        # The order itself has a line; the job that has the priority already has none.
        assert after.pop("audit") != before.pop("audit")
    else:
        # A wake-up of the first call may come late: it is saved up.
        assert len([message for message in heard if '"wake"' not in str(message)]) == 1, heard
    assert after == before


async def test_true_in_place_of_one_is_a_change_of_arguments(desk: Stage) -> None:
    @desk.app.job
    async def note(value: object) -> None: ...

    made = (await desk.app.jobs.submit("note", {"value": 1}, run_in="1h")).job
    changed = await desk.app.desk(ROOT).jobs.edit(made.id, args={"value": True})
    assert changed.args == {"value": True}
    assert changed.seq > made.seq


async def test_a_change_and_its_line_in_the_audit_are_one_transaction(desk: Stage, job: int) -> None:
    """With an audit that cannot be written, nothing can be changed."""
    changing: dict[str, Callable[[Desk, int], Awaitable[object]]] = {
        **{name: call for name, call in CALLS.items() if name not in ("lanes.create", "limits.resume", "roles.grant")},
        "roles.delete": lambda d, _: d.roles.delete("spare"),
        "roles.revoke": lambda d, _: d.roles.revoke("bo", "spare"),
        "lanes.delete": lambda d, _: d.lanes.delete("front"),
        "limits.delete_gate": lambda d, _: d.limits.delete_gate("g"),
        "schedules.delete": lambda d, _: d.schedules.delete("s"),
        "schedules.create": lambda d, _: d.schedules.create("t", "greet", every="1h", args={"name": "Ada"}),
        "approvals.add_rule": lambda d, _: d.approvals.add_rule(kind="greet"),
        "tokens.create": lambda d, _: d.tokens.create("ci", roles=["user"]),
        "jobs.cancel": lambda d, job: d.jobs.cancel(job),
    }
    del changing["lanes.set without a value"], changing["bulk priority"]
    await desk.app.roles.set("spare", ["jobs:read"])
    await desk.app.roles.grant("bo", "spare")
    await desk.app.limits.pause("r", "1h")
    await desk.app.retention.set("*", "9d")
    await desk.app.lanes.set("front", max_total=2)
    await desk.store.execute("ALTER TABLE {s}.audit ADD CONSTRAINT closed CHECK (false) NOT VALID")
    before, asked = await picture(desk), desk.app.desk(ROOT)
    for name, call in changing.items():
        if name in ("lanes.resume", "schedules.resume"):
            continue
        with pytest.raises(Exception, match="closed"):
            await call(asked, job)
        assert await picture(desk) == before, name
