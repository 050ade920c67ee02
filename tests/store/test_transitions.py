"""Every (state, verb) pair of the model against the store, and every write that carries a stale claim."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.factories import Store, beating, opened

from rowlock.model.job import Claim
from rowlock.model.state import TRANSITIONS, State, Verb, reachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as opened_store:
        yield opened_store


class Subject(NamedTuple):
    """A job in some state. claim: the newest one a worker ever had of it; one that never was has fence -1."""

    id: int
    claim: Claim
    worker: int


async def make(store: Store, state: State) -> Subject:
    """A job brought into `state` by legal moves alone; it is past every deadline, its worker is silent."""
    worker = await store.worker()
    if state is State.PENDING:
        subject = Subject(job := await store.enqueue(approval=True), Claim(job, -1), worker)
    elif state is State.BLOCKED:
        await store.gate("g", 0)
        job = await store.enqueue(gate_key="g")
        assert await store.claim(worker, job) == []
        subject = Subject(job, Claim(job, 1), worker)
    elif state is State.QUEUED:
        job = await store.enqueue()
        (claim,) = await store.claim(worker, job)
        await store.give_back(claim)
        subject = Subject(job, claim, worker)
    else:
        job = await store.enqueue()
        (claim,) = await store.claim(worker, job)
        subject = Subject(job, claim, worker)
        if state in (State.COMPLETED, State.COMPLETED_WITH_ERRORS, State.FAILED):
            await store.complete(claim, state=state)
        elif state is State.CANCELLED:
            await store.stop(job)
        elif state is State.EXPIRED:
            await store.give_back(claim)
            await overdue(store, job)
            assert await store.expire() == [job]
    await overdue(store, subject.id)
    await store.silence(worker)
    assert (await store.row(subject.id))["state"] == state
    return subject


async def overdue(store: Store, job: int) -> None:
    await store.execute("UPDATE {s}.jobs SET expires_at = now(), too_old_at = now() WHERE id = $1", job)


async def claim(store: Store, job: Subject) -> None:
    await store.claim_some(job.worker, 10)
    await store.claim(job.worker, job.id)


async def park(store: Store, job: Subject) -> None:
    await store.gate("shut", 0)
    await store.execute("UPDATE {s}.jobs SET gate_key = 'shut' WHERE id = $1 AND state = 'queued'", job.id)
    await store.claim(job.worker, job.id)


async def release(store: Store, _job: Subject) -> None:
    await store.execute("UPDATE {s}.gates SET max_running = 1")
    await store.fetch("repair_gates")


async def cancel(store: Store, job: Subject) -> None:
    await store.cancel_waiting(job.id)
    if not (await store.row(job.id))["finished_at"]:
        await store.cancel_running(job.id)


async def edit(store: Store, job: Subject) -> None:
    await store.execute("UPDATE {s}.jobs SET approval = 2 WHERE state IN ('blocked', 'queued')")
    await store.edit(job.id, args='{"changed": true}')


def returning(outcome: str, refund: int) -> Callable[[Store, Subject], Awaitable[Any]]:
    return lambda store, job: store.give_back(job.claim, refund=refund, outcome=outcome)


VERBS: dict[Verb, Callable[[Store, Subject], Awaitable[Any]]] = {
    Verb.APPROVE: lambda store, job: store.approve(job.id),
    Verb.REJECT: lambda store, job: store.reject(job.id),
    Verb.RELEASE: release,
    Verb.CLAIM: claim,
    Verb.PARK: park,
    Verb.COMPLETE: lambda store, job: store.complete(job.claim),
    Verb.FAIL: returning("failed", 0),
    Verb.SNOOZE: returning("snoozed", 1),
    Verb.WAIT: lambda store, job: store.suspend(job.claim, "s"),
    Verb.INTERRUPT: returning("interrupted", 1),
    Verb.LOSE: lambda store, _: store.rescue(),
    Verb.CANCEL: cancel,
    Verb.STOP: lambda store, job: store.stop(job.id),
    Verb.EXPIRE: lambda store, _: store.expire(),
    Verb.AGE: lambda store, _: store.too_old(),
    Verb.RETRY: lambda store, job: store.retry(job.id),
    Verb.EDIT: edit,
}


def test_every_verb_of_the_model_is_walked() -> None:
    assert set(VERBS) == set(Verb) == set(TRANSITIONS)


@pytest.mark.parametrize("verb", list(Verb))
async def test_a_verb_leads_where_the_model_says_and_adds_one_to_the_fence(store: Store, verb: Verb) -> None:
    for state in State:
        await store.execute("DELETE FROM {s}.jobs")
        await store.execute("DELETE FROM {s}.gates")
        job = await make(store, state)
        before = dict(await store.row(job.id))
        await VERBS[verb](store, job)
        after = dict(await store.row(job.id))
        targets = reachable(verb, state)
        if not targets:
            assert after == before, f"{verb} changed a job that was {state}"
            continue
        assert after["state"] in targets, f"{verb} from {state}"
        steps = 2 if verb is Verb.PARK else 1  # claimed and parked in one statement: two transitions
        request = (verb, state) in ((Verb.CANCEL, State.RUNNING), (Verb.EDIT, State.PENDING))
        assert after["fence"] - before["fence"] == (0 if request else steps), f"{verb} from {state}"
        assert after["seq"] - before["seq"] == steps, f"{verb} from {state}"
        assert (after["finished_at"] is not None) == State(after["state"]).is_final


async def test_a_running_job_may_end_as_each_state_its_owner_may_write(store: Store) -> None:
    for state in (State.COMPLETED, State.COMPLETED_WITH_ERRORS, State.FAILED, State.CANCELLED):
        job = await make(store, State.RUNNING)
        assert await store.complete(job.claim, state=state) == [job.id]
        row = await store.row(job.id)
        assert (row["state"], row["fence"], row["claimed_by"]) == (state, job.claim.fence + 1, job.worker)


@pytest.mark.parametrize(("policy", "target"), [("retry", "queued"), ("fail", "failed"), ("hold", "pending")])
async def test_a_lost_job_goes_where_its_kind_says(store: Store, policy: str, target: str) -> None:
    await store.fetch(
        "register_kinds",
        names=["k"],
        on_worker_lost=[policy],
        max_losses=[None],
        isolates=[False],
        hooks=[None],
        defaults=[None],
    )
    job = await make(store, State.RUNNING)
    assert await store.rescue() == [job.id]
    assert (await store.row(job.id))["state"] == target


async def test_a_retry_of_a_job_nobody_ever_approved_goes_back_to_the_approver(store: Store) -> None:
    job = await store.enqueue(approval=True)
    await store.reject(job)
    assert [row["state"] for row in await store.retry(job)] == ["pending"]
    await store.approve(job)
    await store.stop(job)
    assert [row["state"] for row in await store.retry(job)] == ["queued"]


# Steps by which somebody moves a running job on, so that its claim is old.


async def again(store: Store, job: Subject) -> None:
    await store.execute("UPDATE {s}.jobs SET run_after = now()")
    assert await store.claim(job.worker, job.id)


async def elsewhere(store: Store, job: Subject) -> None:
    assert await store.claim(await store.worker("other"), job.id)


async def disown(store: Store, job: Subject) -> None:
    await store.execute("UPDATE {s}.jobs SET claimed_at = claimed_at - interval '1 minute'")
    row = await store.one(
        "disown", worker=job.worker, held=[], before=datetime.now(UTC), channel=store.database.channel
    )
    assert row["ids"] == [job.id]


async def orphan(store: Store, job: Subject) -> None:
    await store.execute("DELETE FROM {s}.workers")
    assert [row["id"] for row in await store.fetch("orphans", max_losses=3, channel=store.database.channel)] == [job.id]


fail, complete = VERBS[Verb.FAIL], VERBS[Verb.COMPLETE]
stop, rescue, person = VERBS[Verb.STOP], VERBS[Verb.LOSE], VERBS[Verb.RETRY]
APPLIED: dict[str, list[Any]] = {
    "owner's retry": [fail],
    "owner's snooze": [VERBS[Verb.SNOOZE]],
    "owner's completion": [complete],
    "person's retry": [complete, person],
    "retried, then claimed by its old worker": [fail, again],
    "retried, then cancelled": [fail, cancel],
    "completed, retried and claimed by another": [complete, person, elsewhere],
}
REVOKED: dict[str, list[Any]] = {
    "stop": [stop],
    "stop, then a person's retry": [stop, person],
    "rescue": [rescue],
    "rescue, then claimed by its old worker": [rescue, again],
    "too old": [VERBS[Verb.AGE]],
    "disowned": [disown],
    "disowned, then claimed by its old worker": [disown, again],
    "its worker's row deleted": [orphan],
}


@pytest.mark.parametrize("how", [*APPLIED, *REVOKED])
async def test_a_stale_claim_writes_nothing_and_its_worker_learns_whether_its_own_write_stands(
    store: Store, how: str
) -> None:
    job = await make(store, State.RUNNING)
    for step in (APPLIED | REVOKED)[how]:
        await step(store, job)
    before = dict(await store.row(job.id))
    assert await store.complete(job.claim) == []
    assert await store.give_back(job.claim) == []
    assert not await store.report(job.claim)
    assert not await store.guard(job.claim)
    assert dict(await store.row(job.id)) == before
    assert await store.value("SELECT count(*) FROM {s}.job_progress") == 0
    assert await store.settled(job.worker, job.claim) == (how in APPLIED)


async def test_the_present_claim_is_not_settled_and_may_write(store: Store) -> None:
    job = await make(store, State.RUNNING)
    assert not await store.settled(job.worker, job.claim)
    assert await store.guard(job.claim)
    assert await store.report(job.claim)


async def test_another_worker_cannot_take_credit(store: Store) -> None:
    job = await make(store, State.RUNNING)
    await store.complete(job.claim)
    assert await store.settled(job.worker, job.claim)
    assert not await store.settled(job.worker + 1, job.claim)


async def test_one_stale_claim_in_a_batch_does_not_touch_its_neighbours(store: Store) -> None:
    worker = await store.worker()
    claims = [(await store.claim(worker, await store.enqueue()))[0] for _ in range(3)]
    await store.stop(claims[1].job_id)
    assert await store.complete(*claims) == [claims[0].job_id, claims[2].job_id]
    assert await store.states(*(claim.job_id for claim in claims)) == ["completed", "cancelled", "completed"]


async def test_the_beat_names_the_claims_that_are_gone(store: Store) -> None:
    kept, lost = await make(store, State.RUNNING), await make(store, State.RUNNING)
    await store.stop(lost.id)
    row = await store.one("beat", **beating(kept.worker, kept.claim, lost.claim))
    assert row["known"]
    assert row["lost"] == [lost.id]


async def test_progress_starts_anew_with_each_attempt_and_the_checkpoint_stays(store: Store) -> None:
    job = await make(store, State.RUNNING)
    assert await store.report(job.claim, '{"page": 7}')
    await store.give_back(job.claim)
    (again,) = await store.claim(job.worker, job.id)
    assert await store.report(again)
    row = await store.one("checkpoint", id=job.id)
    assert row["checkpoint"] == '{"page": 7}'
    assert await store.value("SELECT fence FROM {s}.job_progress") == again.fence


async def test_snooze_and_interrupt_refund_the_attempt_and_a_failure_does_not(store: Store) -> None:
    job = await make(store, State.RUNNING)
    await store.give_back(job.claim, refund=1, outcome="snoozed")
    assert ((await store.row(job.id))["attempt"], (await store.row(job.id))["refunds"]) == (0, 1)
    (again,) = await store.claim(job.worker, job.id)
    await store.give_back(again)
    assert ((await store.row(job.id))["attempt"], (await store.row(job.id))["refunds"]) == (1, 1)


async def test_a_revoked_job_tells_its_history(store: Store) -> None:
    job = await make(store, State.RUNNING)
    await store.stop(job.id)
    await store.retry(job.id)
    (attempt,) = await store.fetch("attempts_of", id=job.id)
    assert (attempt["fence"], attempt["outcome"], attempt["worker_name"]) == (job.claim.fence, "stopped", "w")
