from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr
from tests.factories import opened
from tests.waiting import busy_for

from rowlock import Approval, Gate, Principal, Rowlock
from rowlock.errors import (
    ApprovalRefused,
    Forbidden,
    InvalidArguments,
    InvalidOption,
    JobNotFound,
    UnknownKind,
    WrongState,
)
from rowlock.model.access import ALL, Permission

if TYPE_CHECKING:
    from tests.desk.conftest import Desk
    from tests.factories import Store

EDITOR = Principal("eve", permissions=frozenset({Permission.READ, Permission.EDIT}), tenant="t")


@pytest.fixture
def greet(app: Rowlock) -> Any:  # noqa: ANN401 - a task
    @app.job("greet")
    async def greet(name: str, times: int = 1) -> None: ...

    return greet


async def refs_of(store: Store, number: int) -> set[tuple[str, str]]:
    found = await store.connection.fetch("SELECT name, value FROM rowlock.job_refs WHERE job_id = $1", number)
    return {(row["name"], row["value"]) for row in found}


async def test_a_waiting_job_is_changed_and_the_change_is_recorded(desk: Desk, greet: Any) -> None:  # noqa: ANN401
    app = desk.app
    job = await greet.options(tags=["a", "b"], refs={"tag": "b", "project": 7}).enqueue("Ada")
    later = datetime.now(UTC) + timedelta(days=1)
    changed = await app.jobs.edit(
        job.id, args={"name": "Bo", "times": 2}, run_at=later, tags=["c"], priority=9, by="ada", note="typo"
    )
    assert (changed.args, changed.run_after, changed.tags, changed.priority) == (
        {"name": "Bo", "times": 2},
        later,
        ("c",),
        9,
    )
    assert (changed.state, changed.fence, changed.seq) == ("queued", 0, 1)
    # A reference that has the name and value of a former tag stays.
    assert await refs_of(desk.store, job.id) == {("tag", "b"), ("tag", "c"), ("project", "7")}
    assert [found.id for found in await app.jobs.list(tag="c")] == [job.id]
    (act,) = (await app.jobs.history(job.id)).acts
    assert (act.verb, act.by, act.note) == ("edit", "ada", "typo")
    (entry, *_) = await app.audit.list(job_id=job.id)
    assert (entry.action, entry.note) == ("job.edit", "typo")
    before = entry.before or {}
    assert before == {
        "args": {"name": "Ada"},
        "tags": ["a", "b"],
        "priority": 0,
        "run_after": before["run_after"],
        "state": "queued",
    }
    assert (entry.after or {})["args"] == {"name": "Bo", "times": 2}
    async with opened(app.database()) as store:
        pairs = await store.value("SELECT count(*) FROM {s}.pairs WHERE kind = 'greet' AND priority = 9")
    assert pairs == 1


async def test_what_is_so_already_changes_nothing(app: Rowlock, greet: Any) -> None:  # noqa: ANN401 - a task
    job = await greet.options(tags=["a"]).enqueue("Ada")
    before = await app.jobs.get(job.id)
    same = await app.jobs.edit(job.id, args={"name": "Ada"}, tags=["a"], priority=0, run_at=before.run_after)
    assert same == before
    assert (await app.jobs.history(job.id)).acts == []
    assert (await app.jobs.edit(job.id, tags=[])).tags == ()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"args": {"name": 7}}, InvalidArguments),
        ({"args": {}}, InvalidArguments),
        ({"priority": 101}, InvalidOption),
        ({"run_at": datetime(2030, 1, 1)}, InvalidOption),  # noqa: DTZ001 - to be refused
        ({"tags": [""]}, InvalidOption),
    ],
)
async def test_what_could_not_be_submitted_is_refused(
    app: Rowlock,
    greet: Any,  # noqa: ANN401 - a task
    change: dict[str, Any],
    error: type[Exception],
) -> None:
    job = await greet.enqueue("Ada")
    with pytest.raises(error):
        await app.jobs.edit(job.id, **change)
    assert (await app.jobs.get(job.id)).seq == 0


async def test_a_version_that_is_not_the_current_one_is_refused(app: Rowlock, greet: Any) -> None:  # noqa: ANN401
    job = await greet.enqueue("Ada")
    read = await app.jobs.get(job.id)
    await app.jobs.edit(job.id, priority=1, version=read.seq)
    with pytest.raises(WrongState, match="changed meanwhile"):
        await app.jobs.edit(job.id, priority=2, version=read.seq)
    assert (await app.jobs.get(job.id)).priority == 1


async def test_only_what_waits_and_is_in_sight_can_be_edited(desk: Desk, greet: Any) -> None:  # noqa: ANN401 - a task
    app = desk.app
    job = await greet.options(tenant="other").enqueue("Ada")
    with pytest.raises(JobNotFound):
        await app.desk(EDITOR).jobs.edit(job.id, priority=1)
    with pytest.raises(Forbidden, match="jobs:edit"):
        await app.desk(Principal("x", permissions=ALL - {Permission.EDIT})).jobs.edit(job.id, priority=1)
    await desk.store.claim(await desk.worker(), job.id)
    with pytest.raises(WrongState, match="it is running"):
        await app.jobs.edit(job.id, args={"name": "Bo"})


async def test_changed_arguments_void_an_approval(app: Rowlock) -> None:
    @app.job(approval=Approval(approvers=2, expires_in="1h"))
    async def pay(amount: int) -> None: ...

    job = await pay.enqueue(amount=1)
    await app.jobs.approve(job.id, by="ada")
    # Anything else does not.
    await app.jobs.edit(job.id, priority=3, tags=["x"], args={"amount": 1})
    assert (await app.approvals.standing(job.id)).approvers == ("ada",)
    half = await app.jobs.edit(job.id, args={"amount": 2})
    assert (half.state, half.fence) == ("pending", 0)
    assert (await app.approvals.standing(job.id)).approvers == ()
    for by in ("ada", "bob"):
        await app.jobs.approve(job.id, by=by)
    approved = await app.jobs.get(job.id)
    assert (approved.state, approved.fence) == ("queued", 1)
    assert (await app.jobs.edit(job.id, tags=["y"])).state == "queued"
    again = await app.jobs.edit(job.id, args={"amount": 1_000_000}, by="eve")
    assert (again.state, again.fence) == ("pending", 2)
    standing = await app.approvals.standing(job.id)
    assert (standing.approvers, standing.answer_by is not None) == ((), True)
    with pytest.raises(WrongState):
        await app.run_job(job.id)
    assert (await app.jobs.cancel(job.id)).state == "cancelled"


async def test_four_eyes_are_not_those_of_who_edited_the_arguments(app: Rowlock) -> None:
    @app.job(approval=Approval(four_eyes=True))
    async def pay(amount: int) -> None: ...

    job = await pay.options(submitted_by="ada").enqueue(amount=1)
    await app.jobs.edit(job.id, tags=["x"], by="bob")
    await app.jobs.edit(job.id, args={"amount": 2}, by="eve")
    with pytest.raises(ApprovalRefused, match="its arguments are theirs"):
        await app.jobs.approve(job.id, by="eve")
    with pytest.raises(ApprovalRefused, match="ada submitted it"):
        await app.jobs.approve(job.id, by="ada")
    assert (await app.jobs.approve(job.id, by="bob")).state == "queued"


async def test_secrets_stay_encoded_and_are_kept_when_their_mask_comes_back(desk: Desk) -> None:
    app = desk.app

    @app.job
    async def login(user: str, password: SecretStr) -> None: ...

    job = await login.enqueue(user="ada", password=SecretStr("swordfish"))
    read = await app.jobs.get(job.id)
    await app.jobs.edit(job.id, args={**read.args, "user": "bob"})
    assert json.loads((await desk.store.row(job.id))["args"]) == {"user": "bob", "password": {"$secret": "swordfish"}}
    await app.jobs.edit(job.id, args={"user": "bob", "password": "tuna"})
    assert json.loads((await desk.store.row(job.id))["args"])["password"] == {"$secret": "tuna"}
    (entry, *_) = await app.audit.list(job_id=job.id)
    assert "tuna" not in str(entry)
    assert "swordfish" not in str(entry)


async def test_references_made_of_the_arguments_follow_and_gates_do_not(desk: Desk) -> None:
    app = desk.app

    @app.job(refs=lambda org: {"org": org}, gate=lambda org: Gate(f"org:{org % 2}"))
    async def sync(org: int) -> None: ...

    job = await sync.options(refs={"batch": 1}).enqueue(org=7)
    moved = await app.jobs.edit(job.id, args={"org": 9})
    assert moved.refs == {"org": 9, "batch": 1}
    assert await refs_of(desk.store, job.id) == {("org", "9"), ("batch", "1")}
    with pytest.raises(InvalidOption, match="would have to wait at the gate 'org:0'"):
        await app.jobs.edit(job.id, args={"org": 8})


async def test_a_parked_job_leaves_its_gate_when_its_approval_is_void(desk: Desk) -> None:
    app = desk.app

    @app.job(approval=True, gate=Gate("g", limit=1))
    async def pay(n: int) -> None: ...

    jobs = [await pay.enqueue(n=n) for n in range(3)]
    for job in jobs:
        await app.jobs.approve(job.id, by="ada")
    (claim,) = await desk.store.claim(await desk.worker(), *(job.id for job in jobs))
    parked = [job for job in jobs if job.id != claim.job_id]
    assert await desk.store.states(*(job.id for job in parked)) == ["blocked", "blocked"]
    await app.jobs.edit(parked[0].id, args={"n": 10})
    await desk.store.complete(claim)
    assert await desk.store.states(*(job.id for job in parked)) == ["pending", "queued"]
    # The second one was handed the place: when it goes back, the place is free again.
    await app.jobs.edit(parked[1].id, args={"n": 11})
    assert await desk.store.value("SELECT held FROM {s}.gates WHERE key = 'g'") == 0


async def test_expiry_counts_from_the_new_moment(app: Rowlock, greet: Any) -> None:  # noqa: ANN401 - a task
    job = await greet.options(expires_in="1h").enqueue("Ada")
    later = datetime.now(UTC) + timedelta(days=1)
    moved = await app.jobs.edit(job.id, run_at=later)
    assert moved.expires_at == later + timedelta(hours=1)
    now = await app.jobs.edit(job.id, run_in=0)
    assert now.run_after < later
    assert now.expires_at == now.run_after + timedelta(hours=1)


async def test_a_kind_whose_code_is_elsewhere_takes_other_tags_but_unchecked_arguments_only_if_told_of(
    desk: Desk,
) -> None:
    number = await desk.store.enqueue("elsewhere")
    assert (await desk.app.jobs.edit(number, tags=["x"])).tags == ("x",)
    with pytest.raises(UnknownKind):
        await desk.app.jobs.edit(number, args={"a": 1})


async def test_streams_tell_of_edits(app: Rowlock) -> None:
    @app.job(approval=True)
    async def pay(amount: int) -> None: ...

    job = await pay.enqueue(amount=1)
    await app.jobs.approve(job.id, by="ada")
    await app.jobs.edit(job.id, args={"amount": 2}, by="eve")
    await app.jobs.approve(job.id, by="bob")
    await app.jobs.edit(job.id, priority=4, by="eve")
    await app.jobs.cancel(job.id)
    async with await app.streams.follow(job.id, after="0") as stream:
        told = [event async for event in stream]
    names = [(event.name, event.data.get("by")) for event in told if event.name.startswith("job.")]
    assert names == [
        ("job.created", None),
        ("job.approved", "ada"),
        ("job.updated", "eve"),
        ("job.approved", "bob"),
        ("job.updated", "eve"),
        ("job.cancelled", None),
    ]


async def test_many_edits_and_claims_at_once_never_run_what_was_not_approved(desk: Desk) -> None:
    """Whoever comes first wins: either the job runs as it was approved, or it is back before the approver."""
    app = desk.app

    @app.job(approval=True)
    async def pay(amount: int) -> None: ...

    jobs = [await pay.enqueue(amount=1) for _ in range(20)]
    for job in jobs:
        await app.jobs.approve(job.id)
    worker = await desk.worker()

    async def edited(number: int) -> bool:
        with contextlib.suppress(WrongState):
            await app.jobs.edit(number, args={"amount": 2})
            return True
        return False

    async def claimed(number: int) -> bool:
        await busy_for(0.001 * (number % 4))
        found = await app.database().fetch("claim_ids", worker=worker, lane="default", ids=[number])
        return bool(found)

    outcomes = await asyncio.gather(*(asyncio.gather(edited(job.id), claimed(job.id)) for job in jobs))
    for job, (was_edited, was_claimed) in zip(jobs, outcomes, strict=True):
        row = await desk.store.row(job.id)
        assert (row["state"] == "running") == was_claimed
        assert not (was_edited and was_claimed)
        expected = ("pending", 2, 1) if was_edited else ("running" if was_claimed else "queued", 1, 2)
        assert (row["state"], json.loads(row["args"])["amount"], row["approval"]) == expected
