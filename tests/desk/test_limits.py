"""Operators see gates and rates, change them live, and are told why a job waits for one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tests.factories import rate, rated

from rowlock import InvalidOption, LimitNotFound, Rate, WrongState
from rowlock.model import ids
from rowlock.model.access import Permission, Principal
from rowlock.model.count import Count
from rowlock.telemetry import Events
from rowlock.upkeep.duty import DutyContext
from rowlock.upkeep.prune import limits

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

    from rowlock import Rowlock

WEEK = "interval '8 days'"


async def test_a_gate_shows_its_holders_and_a_raised_limit_lets_the_parked_in(desk: Desk) -> None:
    store = desk.store
    worker = await desk.worker()
    await store.gate("g", 1)
    jobs = [await store.enqueue(gate_key="g") for _ in range(4)]
    await store.claim(worker, *jobs)
    (gate,) = await desk.app.limits.gates()
    assert (gate.key, gate.limit, gate.held, gate.parked, gate.fifo) == ("g", 1, 1, Count(3), False)
    shown = await desk.app.limits.gate("g")
    assert [(holder.kind, holder.worker) for holder in shown.holders] == [("k", "w")]
    changed = await desk.app.limits.set_gate("g", limit=3, fifo=True)
    assert (changed.limit, changed.held, changed.parked, changed.fifo) == (3, 3, Count(1), True)
    assert await store.states(*jobs) == ["running", "queued", "queued", "blocked"]
    with pytest.raises(WrongState):
        await desk.app.limits.delete_gate("g")
    with pytest.raises(LimitNotFound, match="Did you mean 'g'"):
        await desk.app.limits.gate("gg")
    (entry,) = await desk.app.audit.list(target="gate:g")
    assert (entry.action, entry.before, entry.after) == (
        "gate.set",
        {"limit": 1, "fifo": False},
        {"limit": 3, "fifo": True},
    )


async def test_keys_of_another_tenant_are_not_listed_or_suggested(desk: Desk) -> None:
    await desk.store.fetch("register_pairs", kinds=["k"], priorities=[0], shares=[0])
    for tenant in ("acme", "globex"):
        await desk.store.gate(f"org:{tenant}", 1)
        await desk.store.enqueue(gate_key=f"org:{tenant}", tenant=tenant)
        await rate(desk.store, f"api:{tenant}", Rate(1))
    await desk.app.lanes.create("slow", rate="1/s")
    held = frozenset({Permission.WORKERS_VIEW, Permission.WORKERS_MANAGE})
    limits_of = {tenant: desk.app.desk(Principal("ada", tenant, held)).limits for tenant in ("acme", "globex")}
    for tenant, seen in limits_of.items():
        assert [gate.key for gate in await seen.gates()] == [f"org:{tenant}"]
        assert [view.key for view in await seen.rates()] == ["lane:slow"]
    for ask in (limits_of["acme"].gate("org:globes"), limits_of["acme"].rate("api:globes")):
        with pytest.raises(LimitNotFound) as missing:
            await ask
        assert "globex" not in str(missing.value)
    manager = desk.app.desk(Principal("ada", "acme", held - {Permission.WORKERS_VIEW})).limits
    with pytest.raises(LimitNotFound):
        await manager.set_gate("nowhere", limit=3)
    operator = desk.app.desk(Principal("eve", "acme", held | {Permission.READ_ALL})).limits
    assert [gate.key for gate in await operator.gates()] == ["org:acme", "org:globex"]
    assert len(await operator.rates()) == 3


async def test_a_rate_shows_what_is_left_and_who_waits_and_changes_live(desk: Desk) -> None:
    store = desk.store
    worker = await desk.worker()
    await store.fetch("register_pairs", kinds=["k"], priorities=[0], shares=[0])
    await rate(store, "org:7", Rate(1, "10s", burst=2))
    jobs = await rated(store, 6, "org:7")
    await store.claim(worker, *jobs)
    (view,) = await desk.app.limits.rates(prefix="org:")
    assert (view.key, view.rate, view.available, view.waiting) == ("org:7", Rate(1, "10s", burst=2), 0, 4)
    changed = await desk.app.limits.set_rate("org:7", "100/s")
    assert (changed.rate, changed.edited_at is not None) == (Rate(100), True)
    due = "SELECT max(run_after) < clock_timestamp() + interval '1 s' FROM {s}.jobs"
    assert await store.value(due)
    with pytest.raises(InvalidOption, match="lanes set a --rate"):
        await desk.app.limits.set_rate("lane:a", "1/s")
    with pytest.raises(WrongState, match="in use"):
        await desk.app.limits.delete_rate("org:7")
    await store.execute(f"UPDATE {{s}}.rates SET used_at = now() - {WEEK}, horizon = '-infinity'")
    assert (await desk.app.limits.delete_rate("org:7")).key == "org:7"
    actions = [entry.action for entry in await desk.app.audit.list(target="rate:org:7")]
    assert actions == ["rate.delete", "rate.set"]


async def test_a_newcomer_does_not_queue_behind_the_turns_of_a_rate_that_was_raised(desk: Desk) -> None:
    store = desk.store
    worker = await desk.worker()
    await store.fetch("register_pairs", kinds=["k"], priorities=[0], shares=[0])
    await rate(store, "org:7", Rate(1, "1h"))
    await store.claim(worker, *await rated(store, 3, "org:7"))
    assert (await desk.app.limits.rate("org:7")).waiting == 2
    raised = await desk.app.limits.set_rate("org:7", "60/1m")
    assert raised.waiting <= 2
    assert raised.busy_until is None or raised.busy_until < datetime.now(UTC) + timedelta(minutes=10)
    (newcomer,) = await rated(store, 1, "org:7")
    await store.claim(worker, newcomer)
    soon = "SELECT run_after < clock_timestamp() + interval '10 min' FROM {s}.jobs WHERE id = $1"
    assert await store.value(soon, newcomer)


async def test_a_pause_is_somebodys_and_ends_with_its_time_or_by_order(desk: Desk) -> None:
    await rate(desk.store, "r", Rate(10))
    limits = desk.app.desk(
        Principal("ada", permissions=frozenset({Permission.WORKERS_VIEW, Permission.WORKERS_MANAGE}))
    ).limits
    paused = await limits.pause("r", "30s")
    assert paused.paused_by == "ada"
    assert paused.paused_until is not None
    until = datetime.now(UTC) + timedelta(hours=1)
    assert (await limits.pause("r", until=until)).paused_until == until
    with pytest.raises(InvalidOption, match="has passed"):
        await limits.pause("r", until=until - timedelta(hours=2))
    assert (await limits.rate("r")).paused_until == until
    assert (await limits.resume("r")).paused_until is None
    for wrong in ({}, {"lasting": "1s", "until": until}, {"until": until.replace(tzinfo=None)}):
        with pytest.raises(InvalidOption):
            await limits.pause("r", **wrong)
    assert (await limits.reset("r")).available == 10


async def test_a_handler_that_paused_a_rate_is_shown_by_the_public_id_of_its_job(desk: Desk) -> None:
    await rate(desk.store, "r", Rate(10))
    await desk.app.limits.pause("r", "1h")
    for stored, shown in {"job 5": f"job {ids.encode(5)}", "job 5b": "job 5b", "5": "5"}.items():
        await desk.store.execute("UPDATE {s}.rates SET paused_by = $1", stored)
        assert (await desk.app.limits.rate("r")).paused_by == shown


async def test_explain_says_when_the_turn_is_and_who_paused_the_rate(desk: Desk) -> None:
    store = desk.store
    await desk.lane()
    worker = await desk.worker()
    await rate(store, "org:7", Rate(1, "12s"))
    jobs = await rated(store, 3, "org:7")
    assert await desk.codes(jobs[0]) == ["ready"]
    await store.claim(worker, *jobs[:2])
    assert await desk.codes(jobs[1]) == ["rate_limited"]
    said = str((await desk.app.jobs.explain(jobs[1])).reasons[0].text)
    assert "'org:7' (1/12s)" in said
    assert "in 1" in said
    assert await desk.codes(await store.enqueue(rate_keys=("org:7",))) == ["rate_used_up"]
    await desk.app.limits.pause("org:7", "1h")
    (reason,) = (await desk.app.jobs.explain(jobs[1])).reasons
    assert (reason.code, reason.details["by"]) == ("rate_paused", "system")
    assert "rowlock limits resume org:7" in reason.text


async def test_what_nobody_named_for_a_week_is_forgotten_unless_it_is_needed_or_edited(desk: Desk) -> None:
    store = desk.store
    for key in ("unused", "needed", "edited"):
        await store.gate(key, 3)
        await rate(store, key, Rate(3))
    await store.enqueue(gate_key="needed", rate_keys=("needed",))
    await desk.app.limits.set_gate("edited", limit=4)
    await desk.app.limits.set_rate("edited", "4/s")
    await store.gate("fresh", 3)
    await store.execute(f"UPDATE {{s}}.gates SET used_at = now() - {WEEK} WHERE key <> 'fresh'")
    await store.execute(f"UPDATE {{s}}.rates SET used_at = now() - {WEEK}")
    news = None
    at = DutyContext(desk.app.database(), desk.app.settings, None, Events())  # type: ignore[arg-type]  # it wakes nobody
    assert await limits(at, news) == 2  # type: ignore[arg-type]  # it hears nothing
    assert [gate.key for gate in await desk.app.limits.gates()] == ["edited", "fresh", "needed"]
    assert [view.key for view in await desk.app.limits.rates()] == ["edited", "needed"]
    assert (await desk.app.limits.rate("needed")).used_at > datetime.now(UTC) - timedelta(minutes=1)


def test_the_desk_has_a_blocking_twin(app: Rowlock) -> None:
    assert app.sync.limits.gates() == []
