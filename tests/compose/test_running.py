"""Chains, workflows and groups, enqueued and run by a worker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import eventually

from rowlock import (
    RESULT,
    Context,
    Enqueued,
    Gate,
    InvalidOption,
    Retry,
    Rowlock,
    State,
    SyncContext,
    UniqueConflict,
    WaitTimeout,
    Workflow,
    WorkflowFailed,
    WorkflowState,
    WrongState,
    chain,
    group,
)
from rowlock.model.tenant_share import share_of

if TYPE_CHECKING:
    import asyncpg

ONCE = Retry(attempts=1)


class Shop:
    """Kinds that write down what they did."""

    def __init__(self, app: Rowlock) -> None:
        self.done: list[str] = []
        self.go = asyncio.Event()

        @app.job
        async def pick(order: int) -> list[int]:
            self.done.append(f"pick {order}")
            return [order, order + 1]

        @app.job
        async def pack(items: list[int], label: str = "box") -> str:
            self.done.append(f"pack {items}")
            return f"{label} of {len(items)}"

        @app.job
        def ship(parcel: str) -> dict[str, str]:
            self.done.append(f"ship {parcel}")
            return {"shipped": parcel}

        @app.job
        async def tidy() -> None:
            self.done.append("tidy")

        @app.job(retry=ONCE)
        async def fail(why: str) -> str:
            self.done.append(f"fail {why}")
            raise ValueError(why)

        @app.job
        async def take_back(what: object) -> None:
            self.done.append(f"take back {what}")

        @app.job
        async def gather(results: list[object]) -> int:
            self.done.append(f"gather {results}")
            return len(results)

        @app.job
        async def wait(_: int = 0) -> str:
            self.done.append("wait")
            await self.go.wait()
            return "waited"

        self.pick, self.pack, self.ship, self.tidy = pick, pack, ship, tidy
        self.fail, self.take_back, self.gather, self.wait = fail, take_back, gather, wait

    async def waits(self) -> bool:
        return "wait" in self.done


async def explained(app: Rowlock, number: int, code: str) -> bool:
    return code in (await app.jobs.explain(number)).codes


@pytest.fixture
def shop(app: Rowlock) -> Shop:
    return Shop(app)


async def test_each_step_of_a_chain_gets_the_result_of_the_one_before(app: Rowlock, shop: Shop) -> None:
    started = await chain(shop.pick, shop.pack, shop.ship).enqueue(order=7)
    assert (started.what, list(started.jobs)) == ("created", ["pick", "pack", "ship"])
    async with app.worker():
        assert await started.wait(timeout=20) == {"shipped": "box of 2"}
    assert shop.done == ["pick 7", "pack [7, 8]", "ship box of 2"]
    view = await started.workflow()
    assert (view.state, view.name, view.public_id) == ("completed", "pick > pack > ship", started.public_id)
    job = await app.jobs.get(started.jobs["pack"])
    assert (job.workflow, job.step, job.state) == (started.public_id, "pack", State.COMPLETED)


async def test_a_step_may_take_the_result_elsewhere_or_not_at_all(app: Rowlock, shop: Shop) -> None:
    started = await chain(shop.pick.step(3), shop.pack.step(RESULT, label="bag"), shop.tidy, shop.tidy).enqueue()
    async with app.worker():
        await started.wait(timeout=20)
    assert shop.done == ["pick 3", "pack [3, 4]", "tidy", "tidy"]
    assert list(started.jobs) == ["pick", "pack", "tidy", "tidy-2"]
    packed = await app.jobs.get(started.jobs["pack"])
    assert packed.result == "bag of 2"


async def test_the_key_of_a_chain_is_held_until_its_last_step_is_done(app: Rowlock, shop: Shop) -> None:
    line = chain(shop.wait, shop.tidy)
    first = await line.options(unique_key="org:1").enqueue()
    with pytest.raises(UniqueConflict, match=first.public_id) as conflict:
        await line.options(unique_key="org:1").enqueue()
    assert conflict.value.job_id == first.jobs["wait"]
    kept = await line.options(unique_key="org:1", on_conflict="keep").enqueue()
    assert (kept.id, kept.what, kept.jobs) == (first.id, "kept", first.jobs)
    other = await line.options(unique_key="org:2", on_conflict="keep").enqueue()
    assert other.what == "created"
    shop.go.set()
    async with app.worker():
        await asyncio.gather(first.wait(20), kept.wait(20), other.wait(20))
    again = await line.options(unique_key="org:1").enqueue()
    assert again.id != first.id


async def test_a_workflow_fans_out_and_in(app: Rowlock, shop: Shop) -> None:
    flow = Workflow("orders")
    picks = [flow.add(shop.pick.step(order)) for order in (10, 20)]
    packs = [flow.add(f"pack {n}", shop.pack.step(items=pick.output)) for n, pick in enumerate(picks)]
    total = flow.add("total", shop.gather.step([pack.output for pack in packs]), after=picks)
    started = await flow.options(tenant="acme", meta={"from": "test"}).enqueue()
    async with app.worker():
        assert await started.wait(timeout=20) == 2
    assert shop.done[-1] == "gather ['box of 2', 'box of 2']"
    assert await started.output(total) == 2
    assert await started.output(picks[1]) == [20, 21]
    view = await started.workflow()
    assert (view.tenant, view.meta, view.total, view.open) == ("acme", {"from": "test"}, 5, 0)
    assert {(edge.upstream, edge.downstream) for edge in view.edges if edge.met} == {
        ("pick", "pack 0"),
        ("pick-2", "pack 1"),
        ("pack 0", "total"),
        ("pack 1", "total"),
        ("pick", "total"),
        ("pick-2", "total"),
    }
    assert {job.tenant for job in await app.jobs.many(started.jobs.values())} == {"acme"}


async def test_several_last_steps_make_a_mapping(app: Rowlock, shop: Shop) -> None:
    flow = Workflow("two ends")
    picked = flow.add(shop.pick.step(1))
    flow.add("a", shop.pack.step(picked.output, label="a"))
    flow.add("b", shop.pack.step(picked.output, label="b"))
    started = await flow.enqueue()
    async with app.worker():
        assert await started.wait(timeout=20) == {"a": "a of 2", "b": "b of 2"}


@pytest.mark.parametrize("joined", [False, True])
async def test_steps_that_stand_by_for_a_failure_are_no_result(app: Rowlock, shop: Shop, *, joined: bool) -> None:
    flow = Workflow("stand by")
    picked = flow.add(shop.pick.step(1))
    packed = flow.add(shop.pack.step(picked.output))
    repaired = flow.add("repair", shop.tidy, after=[packed], when="failure")
    told = flow.add("tell", shop.tidy, after=[repaired])
    if joined:
        flow.add("both ways", shop.pack.step([4], label="sent"), after=[packed, told], any_of=True)
    started = await flow.enqueue()
    async with app.worker():
        assert await started.wait(timeout=20) == ("sent of 1" if joined else "box of 2")


async def test_what_a_step_asks_of_those_before_it(app: Rowlock, shop: Shop) -> None:
    flow = Workflow("conditions")
    failing = flow.add(shop.fail.step("no"))
    fine = flow.add(shop.pick.step(1))
    flow.add("only after success", shop.tidy, after=[failing])
    flow.add("after a failure", shop.tidy, after=[failing], when="failure")
    flow.add("after any end", shop.gather.step([failing.output, fine.output]), when="finish")
    flow.add("after one of them", shop.tidy, after=[failing, fine], any_of=True)
    flow.add("after no failure", shop.tidy, after=[fine], when="failure")
    started = await flow.enqueue()
    async with app.worker():
        await app.workflows.wait(started.id, timeout=20)
    view = await started.workflow()
    states = {step.name: str(step.state) for step in view.steps}
    assert states == {
        "fail": "failed",
        "pick": "completed",
        "only after success": "cancelled",
        "after a failure": "completed",
        "after any end": "completed",
        "after one of them": "completed",
        "after no failure": "cancelled",
    }
    assert "gather [None, [1, 2]]" in shop.done
    assert view.state is WorkflowState.COMPLETED_WITH_ERRORS


async def test_a_failed_workflow_names_the_step_and_is_undone_in_reverse(app: Rowlock, shop: Shop) -> None:
    flow = Workflow("saga")
    picked = flow.add("reserve", shop.pick.step(4), undo=shop.take_back)
    packed = flow.add("pack", shop.pack.step(picked.output), undo=shop.take_back.step(what=RESULT))
    flow.add("charge", shop.fail.step("card refused"), after=[packed], undo=shop.take_back.step("never"))
    flow.add("ship", shop.ship.step("x"), after=["charge"])
    started = await flow.enqueue()
    async with app.worker():
        with pytest.raises(WorkflowFailed, match=r"step 'charge' .*card refused") as failed:
            await started.wait(timeout=20)
    assert failed.value.step == "charge"
    assert shop.done == ["pick 4", "pack [4, 5]", "fail card refused", "take back box of 2", "take back [4, 5]"]
    view = await started.workflow()
    assert [(step.name, step.undoes) for step in view.steps if step.undoes] == [
        ("undo reserve", "reserve"),
        ("undo pack", "pack"),
    ] or [(step.name, step.undoes) for step in view.steps if step.undoes] == [
        ("undo pack", "pack"),
        ("undo reserve", "reserve"),
    ]
    with pytest.raises(WrongState, match="undone"):
        await app.workflows.retry(started.id)


async def test_an_undo_step_keeps_to_what_holds_for_its_kind(
    app: Rowlock, shop: Shop, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    seen: list[str] = []

    @app.enqueue_middleware
    def note(enqueuing: Any) -> None:  # noqa: ANN401 - Enqueuing
        seen.append(enqueuing.kind)
        enqueuing.add_meta(trace="abc")

    await sql.execute("INSERT INTO lanes (name, kinds) VALUES ('default', '{*}')")
    await sql.execute("INSERT INTO lanes (name, kinds, requires_approval) VALUES ('asked', '{tidy}', true)")
    flow = Workflow("saga")
    undo = shop.take_back.options(priority=5, gate=Gate("till", limit=1), tags=["refund"])
    first = flow.add("a", shop.pick.step(1), undo=undo)
    second = flow.add("b", shop.pick.step(2), after=[first], undo=shop.tidy)
    flow.add(shop.fail.step("no"), after=[second])
    started = await flow.enqueue()
    assert seen == ["pick", "take_back", "pick", "tidy", "fail"]
    # Workers look where it will be, whoever writes it.
    assert await sql.fetchval("SELECT count(*) FROM pairs WHERE kind = 'take_back' AND priority = 5") == 1
    assert await sql.fetchval("SELECT count(*) FROM gates WHERE key = 'till'") == 1
    async with app.worker():
        pending = "SELECT id FROM jobs WHERE kind = 'tidy' AND state = 'pending'"
        number = await eventually(lambda: sql.fetchval(pending))
        await app.jobs.approve(number, by="ada")
        with pytest.raises(WorkflowFailed):
            await started.wait(timeout=20)
    assert shop.done == ["pick 1", "pick 2", "fail no", "tidy", "take back [1, 2]"]
    job = await app.jobs.get((await started.workflow()).step("undo a").job_id)  # type: ignore[union-attr]  # it is there
    assert (job.priority, job.gate_key, job.tags, job.meta) == (5, "till", ("refund",), {"trace": "abc"})


async def test_a_cancelled_workflow_ends_what_waits_and_undoes_what_was_done(app: Rowlock, shop: Shop) -> None:
    flow = Workflow("cancelled")
    picked = flow.add(shop.pick.step(1), undo=shop.take_back)
    waiting = flow.add(shop.wait, after=[picked])
    flow.add(shop.tidy, after=[waiting])
    started = await flow.enqueue()
    async with app.worker():
        await eventually(shop.waits)
        await app.workflows.cancel(started.id, by="ada", note="wrong order")
        with pytest.raises(WorkflowFailed, match="ended cancelled"):
            await started.wait(timeout=20)
    assert shop.done == ["pick 1", "wait", "take back [1, 2]"]
    view = await started.workflow()
    assert {step.name: str(step.state) for step in view.steps} == {
        "pick": "completed",
        "wait": "cancelled",
        "tidy": "cancelled",
        "undo pick": "completed",
    }
    entry = (await app.audit.list(action="workflow.cancel"))[0]
    assert (entry.target, entry.note, entry.acting_for) == (f"workflow:{started.public_id}", "wrong order", "ada")
    with pytest.raises(WrongState, match="it is cancelled"):
        await app.workflows.cancel(started.id)


async def test_retry_begins_with_what_failed_or_where_it_is_told_to(app: Rowlock, shop: Shop) -> None:
    broken = [True]

    @app.job(retry=ONCE)
    async def shaky(items: list[int]) -> list[int]:
        shop.done.append("shaky")
        if broken[0]:
            raise OSError
        return items

    started = await chain(shop.pick, shaky, shop.pack).enqueue(1)
    async with app.worker():
        with pytest.raises(WorkflowFailed):
            await started.wait(timeout=20)
        broken[0] = False
        view = await app.workflows.retry(started.id)
        assert view.state is WorkflowState.RUNNING
        assert await started.wait(timeout=20) == "box of 2"
        assert shop.done == ["pick 1", "shaky", "shaky", "pack [1, 2]"]
        await app.workflows.retry(started.public_id, "pack")
        assert await started.wait(timeout=20) == "box of 2"
    assert shop.done == ["pick 1", "shaky", "shaky", "pack [1, 2]", "pack [1, 2]"]
    with pytest.raises(WrongState, match="no such step; there are pick, shaky, pack"):
        await app.workflows.retry(started.id, "nothing")
    with pytest.raises(WrongState, match="no step of it has failed"):
        await app.workflows.retry(started.id)


@pytest.mark.parametrize("fails", [False, True])
async def test_callbacks_of_a_group(app: Rowlock, shop: Shop, fails: bool) -> None:
    @app.job(retry=ONCE)
    async def square(n: int) -> int:
        if fails and n == 2:
            raise ValueError(n)
        return n * n

    made = group(
        [square.step(n) for n in range(4)], on_success=shop.gather, on_finish=shop.tidy, on_failure=shop.gather
    )
    started = await made.enqueue()
    async with app.worker():
        view = await app.workflows.wait(started.id, timeout=20)
    states = {step.name: str(step.state) for step in view.steps if step.name.startswith("on_")}
    assert states == {
        "on_success": "cancelled" if fails else "completed",
        "on_finish": "completed",
        "on_failure": "completed" if fails else "cancelled",
    }
    assert sorted(shop.done) == [f"gather {[0, 1, None, 9] if fails else [0, 1, 4, 9]}", "tidy"]
    assert await started.wait(timeout=5) == [0, 1, None if fails else 4, 9]


async def test_a_job_is_followed_by_another_also_when_it_has_ended(app: Rowlock, shop: Shop) -> None:
    early: Enqueued[list[int]] = await shop.pick.enqueue(5)
    packed = await early.then(shop.pack)
    shipped = await packed.then(shop.ship)
    beside = await early.then(shop.pack.step(RESULT, label="second"), name="again")
    async with app.worker():
        assert await shipped.wait(timeout=20) == {"shipped": "box of 2"}
        assert await beside.wait(timeout=20) == "second of 2"
        late = await shop.pick.enqueue(6)
        await late.wait(timeout=20)
        assert await (await late.then(shop.pack)).wait(timeout=20) == "box of 2"
        failing = await shop.fail.enqueue("so")
        cleared = await failing.then(shop.tidy, when="failure")
        await cleared.wait(timeout=20)
    assert (await early.job()).workflow_id == (await shipped.job()).workflow_id
    assert (await shipped.job()).step == "ship"


async def test_then_for_blocking_code(app: Rowlock, shop: Shop) -> None:
    def in_a_thread() -> str:
        return shop.pick.enqueue_sync(1).then_sync(shop.pack).wait_sync(timeout=20)

    async with app.worker():
        assert await asyncio.to_thread(in_a_thread) == "box of 2"
        started = await asyncio.to_thread(chain(shop.pick, shop.pack).enqueue_sync, 2)
        assert await asyncio.to_thread(started.wait_sync, 20) == "box of 2"
        grouped = await asyncio.to_thread(group([shop.pick.step(1)]).enqueue_sync)
        assert await grouped.wait(20) == [[1, 2]]


async def test_steps_that_a_running_step_adds(app: Rowlock, shop: Shop) -> None:
    attempts: list[int] = []

    @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def split(ctx: Context) -> int:
        attempts.append(ctx.job.attempt)
        await ctx.spawn([shop.pick.step(n) for n in (1, 2)])
        packed = await ctx.workflow.add(shop.pack.step([9]), name="extra", before=["end"])
        await ctx.workflow.add(shop.tidy, after=[packed])
        if len(attempts) == 1:
            raise OSError
        return 2

    flow = Workflow("growing")
    first = flow.add(split)
    flow.add("end", shop.gather.step([first.output]))
    started = await flow.enqueue()
    async with app.worker():
        assert await started.wait(timeout=20) == 1
    assert attempts == [1, 2]
    assert sorted(shop.done) == sorted(["pick 1", "pick 2", "pack [9]", "tidy", "gather [2]"])
    assert shop.done.index("gather [2]") > shop.done.index("pick 2")
    names = [step.name for step in (await started.workflow()).steps]
    assert names == ["split", "end", "split/pick-1", "split/pick-2", "extra", "split/tidy-1"]


async def test_steps_that_a_blocking_step_adds(app: Rowlock, shop: Shop) -> None:
    @app.job
    def split(ctx: SyncContext) -> list[str]:
        ctx.spawn([shop.pick.step(1)])
        return [ctx.workflow.add(shop.tidy).name]

    job = await split.enqueue()
    async with app.worker():
        assert await job.wait(timeout=20) == ["split/tidy-1"]
        workflow = (await job.job()).workflow_id
        assert workflow is not None
        view = await app.workflows.wait(workflow, timeout=20)
    assert [step.name for step in view.steps] == ["split", "split/pick-1", "split/tidy-1"]
    assert sorted(shop.done) == ["pick 1", "tidy"]


async def test_nothing_is_put_before_a_step_that_has_begun(app: Rowlock, shop: Shop) -> None:
    errors: list[str] = []

    @app.job
    async def meddle(ctx: Context) -> None:
        for before in ("pick", "nobody"):
            with pytest.raises(WrongState) as refused:
                await ctx.workflow.add(shop.tidy, before=[before])
            errors.append(str(refused.value))

    started = await chain(shop.pick, meddle).enqueue(1)
    async with app.worker():
        await started.wait(timeout=20)
    assert "'pick' no longer waits" in errors[0]
    assert "no step 'nobody'" in errors[1]


async def test_a_workflow_joins_the_callers_transaction(
    app: Rowlock, shop: Shop, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    line = chain(shop.pick, shop.pack).options(connection=sql)
    transaction = sql.transaction()
    await transaction.start()
    gone = await line.enqueue(1)
    await transaction.rollback()
    async with app.worker():
        async with sql.transaction():
            started = await line.enqueue(2)
            assert await sql.fetchval("SELECT count(*) FROM jobs WHERE workflow_id = $1", started.id) == 2
        assert await started.wait(timeout=20) == "box of 2"
    assert shop.done == ["pick 2", "pack [2, 3]"]
    assert await sql.fetchval("SELECT count(*) FROM workflows WHERE id = $1", gone.id) == 0


async def test_waiting_gives_up_and_leaves_the_workflow(shop: Shop) -> None:
    started = await chain(shop.pick, shop.pack).enqueue(1)
    with pytest.raises(WaitTimeout, match=f"Workflow {started.public_id} is still running"):
        await started.wait(timeout=0.05)


async def test_a_signal_wakes_a_step_and_may_come_early(app: Rowlock, shop: Shop) -> None:
    @app.job
    async def confirm(ctx: Context, parcel: str) -> str:
        told: dict[str, Any] = await ctx.wait_for("confirmed", timeout="1h")
        return f"{parcel} by {told['by']}"

    early = await chain(shop.pick, shop.pack, confirm).enqueue(1)
    sent = await app.workflows.signal(early.id, "confirm", "confirmed", {"by": "ada"})
    assert sent.what == "sent"
    again = await app.workflows.signal(early.id, "confirm", "confirmed", {"by": "bo"})
    assert again.what == "kept"
    late = await chain(shop.pick, shop.pack, confirm).enqueue(1)
    async with app.worker():
        assert await early.wait(timeout=20) == "box of 2 by ada"
        number = late.jobs["confirm"]
        await eventually(lambda: explained(app, number, "waits_for_signal"))
        await app.jobs.signal(number, "confirmed", {"by": "bo"})
        assert await late.wait(timeout=20) == "box of 2 by bo"
    with pytest.raises(WrongState, match="has ended"):
        await app.jobs.signal(number, "confirmed")
    with pytest.raises(InvalidOption, match="JSON"):
        await app.jobs.signal(number, "confirmed", object())


async def test_middleware_sees_every_step(app: Rowlock, shop: Shop) -> None:
    seen: list[Any] = []

    @app.enqueue_middleware
    def note(enqueuing: Any) -> None:  # noqa: ANN401 - Enqueuing
        seen.append((enqueuing.kind, dict(enqueuing.calls[0])))
        enqueuing.add_meta(trace="abc")

    started = await chain(shop.pick, shop.pack).enqueue(1)
    assert seen == [("pick", {"order": 1}), ("pack", {})]
    jobs = [await app.jobs.get(number) for number in started.jobs.values()]
    assert [job.meta for job in jobs] == [{"trace": "abc"}] * 2


async def test_steps_of_a_fair_kind_have_the_share_of_the_workflows_tenant(app: Rowlock) -> None:
    @app.job(fair=True)
    async def bill(n: int) -> None: ...

    started = await group([bill.step(n) for n in range(3)]).options(tenant="acme").enqueue()
    jobs = [await app.jobs.get(number) for number in started.jobs.values()]
    assert [job.tenant for job in jobs] == ["acme"] * 3
    async with app.database().connection() as connection:
        shares = await connection.fetch("SELECT DISTINCT share FROM rowlock.jobs")
    assert [row["share"] for row in shares] == [share_of("acme")]


async def test_a_chains_first_task_makes_its_refs_and_gate_of_the_arguments_of_the_call(app: Rowlock) -> None:
    @app.job(refs=lambda order: {"order": order}, gate=lambda order: Gate(f"order-{order}", limit=1))
    async def pick(order: int) -> str:
        return f"parcel {order}"

    @app.job
    async def ship(parcel: str) -> str:
        return f"shipped {parcel}"

    @app.job
    async def newest() -> int:
        return 7

    started = await chain(pick, ship).enqueue(order=7)
    job = await app.jobs.get(started.jobs["pick"])
    assert (job.refs, job.gate_key) == ({"order": 7}, "order-7")
    async with app.worker():
        assert await started.wait(timeout=30) == "shipped parcel 7"
    with pytest.raises(InvalidOption, match="pick: a function computes its gate, rate or refs"):
        chain(newest, pick)
