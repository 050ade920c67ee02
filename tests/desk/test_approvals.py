from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pydantic import SecretStr
from tests.factories import beating

from rowlock import Approval, Principal, Rowlock
from rowlock.api.auth import bind
from rowlock.errors import (
    ApprovalRefused,
    ConfigurationError,
    DatabaseUnreachable,
    Forbidden,
    InvalidOption,
    RuleNotFound,
    WrongState,
)
from rowlock.flow.enqueue import lane_policy
from rowlock.flow.enqueue.wake import Waker
from rowlock.model.access import ALL, Permission
from rowlock.settings import Settings
from rowlock.upkeep.duty import DutyContext
from rowlock.upkeep.expire import expire

if TYPE_CHECKING:
    from tests.desk.conftest import Desk


@pytest.fixture
def pay(app: Rowlock) -> Any:  # noqa: ANN401 - a task
    @app.job("pay", approval=Approval(four_eyes=True))
    async def pay(amount: int) -> None: ...

    return pay


async def test_four_eyes_are_not_those_of_the_submitter(app: Rowlock, pay: Any) -> None:  # noqa: ANN401 - as above
    job = await pay.options(submitted_by="ada").enqueue(amount=1)
    for by in ("ada", None):
        with pytest.raises(ApprovalRefused, match="four eyes are asked for, and ada submitted it"):
            await app.jobs.approve(job.id, by=by)
    assert (await app.jobs.get(job.id)).state == "pending"
    assert (await app.jobs.history(job.id)).acts == []
    assert (await app.jobs.approve(job.id, by="bob", note="fine")).state == "queued"
    with pytest.raises(WrongState, match="only a pending job can be approved"):
        await app.jobs.approve(job.id, by="eve")
    with pytest.raises(InvalidOption, match="Pass submitted_by"):
        await pay.enqueue(amount=2)


async def test_several_people_have_to_approve_each_once(app: Rowlock) -> None:
    @app.job(approval=Approval(approvers=2))
    async def wipe() -> None: ...

    job = await wipe.enqueue()
    assert (await app.jobs.approve(job.id, by="ada")).state == "pending"
    with pytest.raises(ApprovalRefused, match="approved it already"):
        await app.jobs.approve(job.id, by="ada")
    with pytest.raises(ApprovalRefused, match="each has to give a name"):
        await app.jobs.approve(job.id)
    standing = await app.approvals.standing(job.id)
    assert (standing.approval.approvers, standing.approvers) == (2, ("ada",))
    assert "1 of 2 approvals are given, by ada" in str(await app.jobs.explain(job.id))
    assert (await app.jobs.approve(job.id, by="bob")).state == "queued"
    assert [(act.verb, act.by) for act in (await app.jobs.history(job.id)).acts] == [
        ("approve", "ada"),
        ("approve", "bob"),
    ]


async def test_new_arguments_void_a_half_given_approval_and_a_call_may_demand_one(app: Rowlock) -> None:
    @app.job(approval=Approval(approvers=2))
    async def wipe(n: int) -> None: ...

    keyed = wipe.options(unique_key="x", on_conflict="replace")
    job = await keyed.enqueue(n=1)
    await app.jobs.approve(job.id, by="ada")
    await keyed.enqueue(n=2)
    assert (await app.jobs.approve(job.id, by="bob")).state == "pending"
    assert (await app.jobs.approve(job.id, by="ada")).state == "queued"

    @app.job
    async def free(n: int) -> None: ...

    plain = free.options(unique_key="x", on_conflict="replace")
    open_ = await plain.enqueue(n=1)
    before = await app.jobs.get(open_.id)
    again = free.options(unique_key="x", on_conflict="replace", approval=Approval(four_eyes=True), submitted_by="ada")
    await again.enqueue(n=2)
    after = await app.jobs.get(open_.id)
    assert (before.state, after.state, after.fence - before.fence) == ("queued", "pending", 1)
    with pytest.raises(ApprovalRefused):
        await app.jobs.approve(open_.id, by="ada")
    await plain.enqueue(n=3)
    assert (await app.jobs.get(open_.id)).state == "pending"


async def test_nobody_answers_in_time(desk: Desk) -> None:
    @desk.app.job(approval=Approval(expires_in="1h"))
    async def pay() -> None: ...

    first, second = await pay.enqueue(), await pay.enqueue()
    (bulk,) = await pay.enqueue_many([{}])
    for job in (first, second, bulk):
        standing = await desk.app.approvals.standing(job.id)
        assert standing.answer_by is not None
    await desk.app.jobs.approve(second.id, by="ada")
    await desk.store.execute("UPDATE rowlock.jobs SET answer_by = now() - interval '1 s' WHERE id <> $1", second.id)
    with pytest.raises(ApprovalRefused, match="nobody answered in time"):
        await desk.app.jobs.approve(first.id, by="ada")
    assert "expire" in (await desk.store.one("beat", **beating(await desk.worker())))["due"]
    database = desk.app.database()
    assert await expire(DutyContext(database, Settings(), Waker(database)), None) == 2  # type: ignore[arg-type]  # takes no news
    late = await desk.app.jobs.get(first.id)
    assert (late.state, late.errors) == ("expired", {"reason": "unanswered"})
    assert (await desk.app.jobs.get(second.id)).state == "queued"
    assert (await desk.app.jobs.retry(first.id)).state == "pending"
    assert (await desk.app.approvals.standing(first.id)).answer_by is None


async def test_a_rule_approves_what_fits_it(app: Rowlock) -> None:
    @app.job("pay.small", approval=True)
    async def small(amount: int) -> None: ...

    rule = await app.approvals.add_rule(kind="pay.*", tenant="acme", args={"amount": 5}, by="boss", note="pennies")
    fitting = small.options(tenant="acme")
    job = await fitting.enqueue(amount=5)
    assert (await app.jobs.get(job.id)).state == "queued"
    (act,) = (await app.jobs.history(job.id)).acts
    assert (act.verb, act.by, act.note) == ("approve", "boss", f"rule {rule.id}: pennies")
    for other, amount in ((fitting, 6), (small, 5)):
        assert (await app.jobs.get((await other.enqueue(amount=amount)).id)).state == "pending"
    many = await fitting.enqueue_many([{"amount": 5}, {"amount": 6}, {"amount": 5}])
    assert [(await app.jobs.get(made.id)).state for made in many] == ["queued", "pending", "queued"]
    keyed = await small.options(tenant="acme", unique_key="k").enqueue(amount=5)
    assert (await app.jobs.get(keyed.id)).state == "queued"
    assert [one.id for one in await app.approvals.rules()] == [rule.id]
    await app.approvals.remove_rule(rule.id)
    assert (await app.jobs.get((await fitting.enqueue(amount=5)).id)).state == "pending"
    with pytest.raises(RuleNotFound):
        await app.approvals.remove_rule(rule.id)
    with pytest.raises(InvalidOption, match="must name what it approves"):
        await app.approvals.add_rule(by="boss")


async def test_a_rule_is_the_approval_of_its_author_and_of_one_person(app: Rowlock, pay: Any) -> None:  # noqa: ANN401 - as above
    @app.job(approval=Approval(approvers=2))
    async def wipe() -> None: ...

    @app.job(approval=True)
    async def send() -> None: ...

    for kind in ("pay", "wipe", "send"):
        await app.approvals.add_rule(kind=kind, by="ada")
    own = await pay.options(submitted_by="ada").enqueue(amount=1)
    other = await pay.options(submitted_by="bob").enqueue(amount=1)
    assert [(await app.jobs.get(job.id)).state for job in (own, other)] == ["pending", "queued"]
    sent = [await send.options(submitted_by=who).enqueue() for who in ("ada", "bob")]
    assert [(await app.jobs.get(job.id)).state for job in sent] == ["pending", "queued"]
    job = await wipe.enqueue()
    assert (await app.approvals.standing(job.id)).approvers == ("ada",)
    with pytest.raises(ApprovalRefused):
        await app.jobs.approve(job.id, by="ada")
    assert (await app.jobs.approve(job.id, by="bob")).state == "queued"


async def test_a_tenants_approver_makes_rules_for_the_tenant_alone(app: Rowlock) -> None:
    may = frozenset({Permission.READ, Permission.APPROVE})
    acme = app.desk(Principal("ada", "acme", may)).approvals
    rule = await acme.add_rule(kind="pay")
    assert (rule.tenant, rule.created_by) == ("acme", "ada")
    with pytest.raises(InvalidOption, match="holds for your tenant"):
        await acme.add_rule(kind="pay", tenant="other")
    other = app.desk(Principal("eve", "other", may)).approvals
    assert await other.rules() == []
    with pytest.raises(RuleNotFound):
        await other.remove_rule(rule.id)
    with pytest.raises(Forbidden):
        await app.desk(Principal("bob", None, may)).approvals.add_rule(kind="pay")


async def test_a_lane_may_ask_for_approval(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    app = desk.app

    @app.job
    async def k() -> None: ...

    @app.job
    async def other() -> None: ...

    await desk.lane("careful", kinds=("k",))
    await desk.lane("default")
    before = await k.enqueue()
    await app.lanes.set("careful", requires_approval=True)
    monkeypatch.setattr(lane_policy, "EVERY", 0.0)
    app._producer._lanes.forget()
    states = [
        (await app.jobs.get(job.id)).state
        for job in (before, await k.enqueue(), *await k.enqueue_many([{}]), await other.enqueue())
    ]
    assert states == ["queued", "pending", "pending", "queued"]
    async with app.database().connection() as connection, connection.transaction():
        inside = await k.options(connection=connection).enqueue()
    assert (await app.jobs.get(inside.id)).state == "pending"
    await app.lanes.set("careful", requires_approval=False)
    await app.lanes.set("default", requires_approval=True)
    app._producer._lanes.forget()
    rest = [(await app.jobs.get(job.id)).state for job in (await k.enqueue(), await other.enqueue())]
    assert rest == ["queued", "pending"]


async def test_pending_jobs_are_listed_oldest_first(app: Rowlock, pay: Any) -> None:  # noqa: ANN401 - as above
    made = [await pay.options(submitted_by=who).enqueue(amount=1) for who in ("ada", "bob", "ada")]
    page = await app.approvals.pending(limit=2)
    assert [job.id for job in page.items] == [made[0].id, made[1].id]
    rest = await app.approvals.pending(limit=2, after=page.next)
    assert [job.id for job in rest.items] == [made[2].id]
    assert [job.id for job in (await app.approvals.pending("by:bob")).items] == [made[1].id]
    explained = str(await app.jobs.explain(made[0].id))
    assert "anyone with jobs:approve except ada" in explained


def test_an_approval_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="approvers must be from 1 to 100"):
        Approval(approvers=0)
    with pytest.raises(ConfigurationError, match="some time to answer"):
        Approval(expires_in=0)
    assert Approval.of(Approval(3, four_eyes=True).code) == Approval(3, four_eyes=True)


async def test_a_lane_that_cannot_be_read_lets_nothing_through(
    app: Rowlock, desk: Desk, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    """Every connection that writes a job says for itself what its lane asks for; without one nothing is written."""

    @app.job
    async def k() -> None: ...

    await desk.lane("careful", kinds=("k",))
    await app.lanes.set("careful", requires_approval=True)

    def away() -> None:
        raise DatabaseUnreachable("away")

    monkeypatch.setattr(app._producer._lanes, "_open", away)
    with pytest.raises(DatabaseUnreachable):
        await k.enqueue()
    with pytest.raises(DatabaseUnreachable):
        await k.enqueue_many([{}, {}])
    assert await app.jobs.list() == []
    async with app.database().connection() as connection, connection.transaction():
        await k.options(connection=connection).enqueue()
        await k.options(connection=connection).enqueue_many([{}, {}])
    with psycopg.connect(database_url) as blocking:
        k.options(connection=blocking).enqueue_sync()
        k.options(connection=blocking).enqueue_many_sync([{}])
    assert {job.state for job in await app.jobs.list()} == {"pending"}
    assert len(await app.jobs.list()) == 5
    await app.lanes.set("careful", requires_approval=False)
    async with app.database().connection() as connection, connection.transaction():
        job = await k.options(connection=connection).enqueue()
    assert (await app.jobs.get(job.id)).state == "queued"


async def test_whoever_edited_is_named_among_those_who_may_not_approve(app: Rowlock, pay: Any) -> None:  # noqa: ANN401
    job = await pay.options(submitted_by="ada").enqueue(amount=1)
    await app.jobs.edit(job.id, args={"amount": 2}, by="bob")
    await app.jobs.edit(job.id, tags=["x"], by="eve")
    explained = str(await app.jobs.explain(job.id))
    assert "anyone with jobs:approve except ada and bob may" in explained


async def test_rules_are_asked_again_after_an_edit(app: Rowlock, pay: Any) -> None:  # noqa: ANN401 - as above
    await app.approvals.add_rule(kind="pay", args={"amount": 1}, by="chief")
    await app.approvals.add_rule(kind="pay", args={"amount": 2}, by="bob")
    job = await pay.options(submitted_by="ada").enqueue(amount=1)
    assert (await app.jobs.get(job.id)).state == "queued"
    assert (await app.jobs.edit(job.id, args={"amount": 3}, by="ada")).state == "pending"
    # The rule's author wrote these arguments: their four eyes are two.
    assert (await app.jobs.edit(job.id, args={"amount": 2}, by="bob")).state == "pending"
    assert (await app.jobs.edit(job.id, args={"amount": 1}, by="ada")).state == "queued"
    acts = [(act.verb, act.by) for act in (await app.jobs.history(job.id)).acts]
    assert acts == [("approve", "chief"), ("edit", "ada"), ("edit", "bob"), ("edit", "ada"), ("approve", "chief")]


APPROVER = frozenset({Permission.SUBMIT, Permission.READ, Permission.APPROVE, Permission.EDIT, Permission.RETRY})


async def test_nobody_approves_their_own_job_over_rest_unless_the_kind_says_so(app: Rowlock) -> None:
    @app.job(approval=True)
    async def pay(amount: int) -> None: ...

    @app.job(approval=Approval(four_eyes=False))
    async def tidy(n: int) -> None: ...

    async with app.worker():
        pass
    ada, bob = (app.desk(Principal(name, "acme", APPROVER)) for name in ("ada", "bob"))
    job = (await ada.jobs.submit("pay", {"amount": 1})).job
    with pytest.raises(ApprovalRefused, match="ada submitted it"):
        await ada.jobs.approve(job.id)
    seen = await ada.jobs.bulk("approve", ids=[job.id], dry_run=True)
    started = await ada.jobs.bulk("approve", ids=[job.id], filter_hash=seen.filter_hash, expected_max=5)
    await ada.operations.wait(started.id or 0, timeout=30)
    assert (await ada.jobs.get(job.id)).state == "pending"
    assert (await ada.approvals.standing(job.id)).approval.four_eyes
    assert "anyone with jobs:approve except ada" in str(await ada.jobs.explain(job.id))
    assert (await bob.jobs.approve(job.id)).state == "queued"

    own = (await ada.jobs.submit("tidy", {"n": 1})).job
    assert not (await ada.approvals.standing(own.id)).approval.four_eyes
    assert (await ada.jobs.approve(own.id)).state == "queued"
    # The library and the command line hold the database's password; approvals there may be unnamed.
    for by in ("ada", None):
        job = (await ada.jobs.submit("pay", {"amount": 2})).job
        assert (await app.jobs.approve(job.id, by=by)).state == "queued"


async def test_a_server_without_authentication_knows_no_submitter(app: Rowlock) -> None:
    @app.job(approval=True)
    async def pay(amount: int) -> None: ...

    desk = app.desk(bind.LOOPBACK)
    job = (await desk.jobs.submit("pay", {"amount": 1})).job
    assert bind.LOOPBACK.subject == job.submitted_by
    assert (await desk.jobs.approve(job.id)).state == "queued"


async def test_a_known_caller_of_the_same_name_as_unknown_ones_does_not_approve_its_own_jobs(app: Rowlock) -> None:
    @app.job(approval=True)
    async def pay(amount: int) -> None: ...

    desk = app.desk(Principal(bind.LOOPBACK.subject, "acme", APPROVER))
    job = (await desk.jobs.submit("pay", {"amount": 1})).job
    with pytest.raises(ApprovalRefused):
        await desk.jobs.approve(job.id)
    await desk.approvals.add_rule(kind="pay")
    assert (await desk.jobs.submit("pay", {"amount": 2})).job.state == "pending"


async def test_whoever_changed_the_arguments_over_rest_does_not_approve_them(app: Rowlock) -> None:
    @app.job(approval=True)
    async def pay(amount: int) -> None: ...

    ada, bob = (app.desk(Principal(name, "acme", APPROVER)) for name in ("ada", "bob"))
    job = (await ada.jobs.submit("pay", {"amount": 1})).job
    assert (await bob.jobs.approve(job.id)).state == "queued"
    assert (await bob.jobs.edit(job.id, args={"amount": 1_000_000})).state == "pending"
    for desk in (ada, bob):
        with pytest.raises(ApprovalRefused):
            await desk.jobs.approve(job.id)


async def test_a_rule_is_no_way_around_a_second_pair_of_eyes(app: Rowlock) -> None:
    @app.job(approval=True)
    async def pay(amount: int) -> None: ...

    ada = app.desk(Principal("ada", "acme", APPROVER))
    await ada.approvals.add_rule(kind="pay")
    assert (await ada.jobs.submit("pay", {"amount": 1})).job.state == "pending"
    assert (await app.desk(Principal("bob", "acme", APPROVER)).jobs.submit("pay", {"amount": 1})).job.state == "queued"


@pytest.mark.parametrize(
    ("args", "state"),
    [
        ({"ibans": ["GOOD"], "note": "any"}, "queued"),
        ({"ibans": ["ATTACKER", "GOOD"]}, "pending"),
        ({"ibans": ["GOOD", "GOOD"]}, "pending"),
        ({"ibans": [["GOOD"]]}, "pending"),
        ({"ibans": []}, "pending"),
    ],
)
async def test_a_rule_approves_the_very_values_it_names(app: Rowlock, args: dict[str, Any], state: str) -> None:
    @app.job(approval=True)
    async def pay(ibans: list[Any], note: str = "") -> None: ...

    rule = await app.approvals.add_rule(kind="pay", args={"ibans": ["GOOD"]}, by="carol")
    assert rule.args_match == "exact"
    assert (await app.jobs.get((await pay.enqueue(**args)).id)).state == state
    await app.approvals.remove_rule(rule.id)
    loose = await app.approvals.add_rule(kind="pay", args={"ibans": ["GOOD"]}, args_match="contains", by="carol")
    assert ((await app.approvals.rules())[0].args_match, loose.args_match) == ("contains", "contains")
    contained = "GOOD" in args["ibans"]
    assert (await app.jobs.get((await pay.enqueue(**args)).id)).state == ("queued" if contained else "pending")


async def test_a_rule_written_before_compares_exactly(desk: Desk) -> None:
    @desk.app.job(approval=True)
    async def pay(ibans: list[str]) -> None: ...

    for args in ('{"ibans": ["GOOD"]}', "[1]"):
        await desk.store.execute(
            "INSERT INTO {s}.approval_rules (kind, args, created_by) VALUES ('pay', $1::text::jsonb, 'carol')", args
        )
    for ibans, state in ((["ATTACKER", "GOOD"], "pending"), (["GOOD"], "queued")):
        assert (await desk.app.jobs.get((await pay.enqueue(ibans=ibans)).id)).state == state


async def test_a_rule_cannot_guess_at_secrets(app: Rowlock) -> None:
    with pytest.raises(InvalidOption, match=r"\$secret"):
        await app.approvals.add_rule(kind="login", args={"pins": [{"pin": {"$secret": 1234}}]})
    with pytest.raises(InvalidOption, match='args_match is "exact" or "contains"'):
        await app.approvals.add_rule(kind="login", args_match="like")  # type: ignore[arg-type]


async def test_a_copy_needs_the_approval_that_was_demanded_of_the_original(app: Rowlock) -> None:
    @app.job
    async def wipe(data: bytes, token: SecretStr | None = None) -> None: ...

    first = await wipe.options(approval=Approval(approvers=2), submitted_by="ada").enqueue(b"\xff", SecretStr("hush"))
    for by in ("bob", "carol"):
        await app.jobs.approve(first.id, by=by)
    ada = app.desk(Principal("ada", None, APPROVER | {Permission.READ_ARGS}))
    for copy in (await app.jobs.clone(first.id), await ada.jobs.clone(first.id)):
        assert (copy.what, copy.job.state, copy.job.submitted_by) == ("created", "pending", "ada")
        assert (await app.approvals.standing(copy.job.id)).approval.approvers == 2
        args = (await app.desk(Principal("root", None, ALL)).jobs.get(copy.job.id)).args
        assert args == {"data": {"$bytes": "/w=="}, "token": "hush"}
    with pytest.raises(Forbidden, match="read_args"):
        await app.desk(Principal("ada", None, APPROVER)).jobs.clone(first.id)
