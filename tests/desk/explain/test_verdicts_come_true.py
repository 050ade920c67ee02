"""What explain says is compared with what happens next, in random small worlds with a live worker.

A job that something holds back is never called ready, and does not start before the last of its blockers is lifted; a
job that nothing holds back is called ready, and runs.
"""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.waiting import eventually, nothing_happens_for
from typing_extensions import override

from rowlock import Context, Rate, Rowlock, chain
from rowlock.delivery.backend import Delivery
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from tests.desk.conftest import Desk

GATE = "door"
RATE = "calls"
PLENTY = "1000/1s"
FREE = {"ready", "running", "ended"}


class Blocker(NamedTuple):
    """What holds a job back. options: of its submission; close and lift: before it and when it is to go on.

    uses_up: close() runs a job, so that nothing else may be closed before.
    """

    options: dict[str, Any]
    close: Callable[[Rowlock], Awaitable[object]]
    lift: Callable[[Rowlock, int], Awaitable[object]]
    codes: frozenset[str]
    uses_up: bool = False


async def nothing(_app: Rowlock) -> None: ...


async def run_one(app: Rowlock) -> None:
    job = (await app.jobs.submit("k", {})).job.id
    async with app.worker():
        assert (await app.jobs.wait(job, timeout=60)).state is State.COMPLETED


async def use_up_rate(app: Rowlock) -> None:
    await app.limits.set_rate(RATE, "1/1h")
    await app.limits.reset(RATE)
    await run_one(app)


async def use_up_lane_rate(app: Rowlock) -> None:
    await app.lanes.set("front", rate="1/1h")
    await app.limits.reset("lane:front")
    await run_one(app)


BLOCKERS = {
    "a drained lane": Blocker(
        {}, lambda app: app.lanes.drain("front"), lambda app, _: app.lanes.resume("front"), frozenset({"lane_drained"})
    ),
    "a lane without slots": Blocker(
        {},
        lambda app: app.lanes.set("front", slots=0),
        lambda app, _: app.lanes.set("front", slots=3),
        frozenset({"lane_full"}),
    ),
    "a lane at its cap": Blocker(
        {},
        lambda app: app.lanes.set("front", max_total=0),
        lambda app, _: app.lanes.set("front", max_total=-1),
        frozenset({"lane_capped"}),
    ),
    "a full gate": Blocker(
        {"gate": GATE},
        lambda app: app.limits.set_gate(GATE, limit=0),
        lambda app, _: app.limits.set_gate(GATE, limit=1),
        frozenset({"gate_full", "parked"}),
    ),
    "a time to come": Blocker(
        {"run_in": "1h"}, nothing, lambda app, job: app.jobs.edit(job, run_in="0s"), frozenset({"not_due", "scheduled"})
    ),
    "a missing approval": Blocker(
        {"approval": True}, nothing, lambda app, job: app.jobs.approve(job, by="root"), frozenset({"approval"})
    ),
    "a paused rate": Blocker(
        {},
        lambda app: app.limits.pause(RATE, "1h"),
        lambda app, _: app.limits.resume(RATE),
        frozenset({"rate_paused"}),
    ),
    "a used up rate": Blocker(
        {},
        use_up_rate,
        lambda app, _: app.limits.set_rate(RATE, PLENTY),
        frozenset({"rate_used_up", "rate_limited"}),
        uses_up=True,
    ),
    "a paused rate of the lane": Blocker(
        {},
        lambda app: app.limits.pause("lane:front", "1h"),
        lambda app, _: app.limits.resume("lane:front"),
        frozenset({"lane_paused"}),
    ),
    "a used up rate of the lane": Blocker(
        {},
        use_up_lane_rate,
        lambda app, _: app.lanes.set("front", rate=PLENTY),
        frozenset({"lane_rate"}),
        uses_up=True,
    ),
}


SIGNAL = "a missing signal"
OF_SOURCES = {
    SIGNAL: Blocker({}, nothing, lambda app, job: app.jobs.signal(job, "go on"), frozenset({"waits_for_signal"})),
}
"""Blockers that a source brings along."""


class Source(NamedTuple):
    """How the job comes to be. begin: before a worker is there; job: its id; takes: options that it can pass on.

    brings: the blocker of OF_SOURCES that holds the job from its beginning, which is before any other is closed.
    """

    begin: Callable[[Rowlock, dict[str, Any]], Awaitable[Any]]
    job: Callable[[Rowlock, Any], Awaitable[int]]
    takes: frozenset[str] = frozenset()
    brings: str | None = None


async def submitted(app: Rowlock, options: dict[str, Any]) -> int:
    return (await app.jobs.submit("k", {}, **options)).job.id


async def ordered(app: Rowlock, options: dict[str, Any]) -> int:
    name = f"yearly-{uuid.uuid4()}"
    await app.schedules.create(name, "k", "0 0 1 1 *", options=options)
    return (await app.schedules.run(name)).id


async def scheduled(app: Rowlock, options: dict[str, Any]) -> str:
    name = f"often-{uuid.uuid4()}"
    await app.schedules.create(name, "k", every="1s", options=options)
    return name


async def fired(app: Rowlock, name: str) -> int:
    async def first() -> int | None:
        return (await app.schedules.get(name)).last_job

    job = await eventually(first)
    await app.schedules.delete(name)
    assert job is not None
    return job


async def chained(app: Rowlock, options: dict[str, Any]) -> tuple[int, int]:
    """A step that waits for approval, and the step behind it, which is the job."""
    first_step: Any = app.task("before").options(approval=True)
    second_step: Any = app.task("k").options(**options)
    started = await chain(first_step, second_step).enqueue()
    steps = (await app.workflows.get(started.id)).steps
    first, second = (step.job_id for step in steps)
    assert first is not None
    assert second is not None
    return first, second


async def released(app: Rowlock, steps: tuple[int, int]) -> int:
    """The second step, once the first has ended; until then it waits for it."""
    first, second = steps
    await judged(app, second, blocked_by={"the step before it"}, named={"waits_for_steps"})
    await app.jobs.approve(first, by="root")
    assert (await app.jobs.wait(first, timeout=60)).state is State.COMPLETED
    return second


async def suspended(app: Rowlock, options: dict[str, Any]) -> int:
    """A job that has begun to run and waits for a signal."""
    job = (await app.jobs.submit("asks", {}, **options)).job.id

    async def waits() -> bool:
        return (await app.jobs.get(job)).state is State.BLOCKED

    async with app.worker():
        await eventually(waits)
    return job


async def as_it_is(_app: Rowlock, job: int) -> int:
    return job


SOURCES = {
    "a submission": Source(submitted, as_it_is, frozenset({"gate", "run_in", "approval"})),
    "a schedule that a person runs": Source(ordered, as_it_is),
    "a schedule that fires": Source(scheduled, fired),
    "a step of a chain": Source(chained, released, frozenset({"gate"})),
    "a job that waits for a signal": Source(suspended, as_it_is, frozenset({"gate"}), SIGNAL),
}


async def judged(app: Rowlock, job: int, *, blocked_by: set[str], named: set[str] | None = None) -> None:
    """Explain agrees with what holds the job back, and the job does as it says."""
    codes = (await app.jobs.explain(job)).codes
    if not blocked_by:
        assert codes[0] in FREE, codes
        return
    assert codes[0] not in FREE, (blocked_by, codes)
    assert named is None or codes[0] in named, codes
    await nothing_happens_for(0.2)
    now = await app.jobs.get(job)
    assert now.state in (State.QUEUED, State.BLOCKED, State.PENDING), (blocked_by, codes, now.state)


async def prepare(desk: Desk) -> None:
    """Two kinds in lanes of their own, a gate and two rates."""
    app = desk.app

    @app.job("k", rate=Rate.parse(PLENTY).for_key(RATE))
    async def k() -> None: ...

    @app.job("asks", rate=Rate.parse(PLENTY).for_key(RATE))
    async def asks(ctx: Context) -> None:
        await ctx.wait_for("go on", timeout="1h")

    @app.job("before")
    async def before() -> None: ...

    await desk.store.gate(GATE)
    await app.lanes.create("front", kinds=["k", "asks"], slots=3, rate=PLENTY)
    await app.lanes.create("back", kinds=["before"])
    await run_one(app)


async def play(desk: Desk, seed: int) -> None:
    chance, app = random.Random(seed), desk.app  # noqa: S311 - no secret
    await prepare(desk)
    for _ in range(3):
        source = SOURCES[chance.choice(sorted(SOURCES))]
        possible = [name for name, each in BLOCKERS.items() if each.options.keys() <= source.takes]
        chosen = chance.sample(sorted(possible), chance.randrange(4))
        used_up = [name for name in chosen if BLOCKERS[name].uses_up]
        chosen = [name for name in chosen if name not in used_up[1:]]
        options = {key: value for name in chosen for key, value in BLOCKERS[name].options.items()}
        begun = None if source.brings is None else await source.begin(app, options)
        for name in sorted(chosen, key=lambda name: not BLOCKERS[name].uses_up):
            await BLOCKERS[name].close(app)
        if source.brings is None:
            begun = await source.begin(app, options)
        else:
            chosen.insert(chance.randrange(len(chosen) + 1), source.brings)
        # A worker that is there already may claim the job before it hears of the lane's new settings.
        async with app.worker():
            job = await source.job(app, begun)
            left = set(chosen)
            for name in chosen:
                await judged(app, job, blocked_by=left)
                await (BLOCKERS | OF_SOURCES)[name].lift(app, job)
                left.remove(name)
            await judged(app, job, blocked_by=left)
            assert (await app.jobs.wait(job, timeout=60)).state is State.COMPLETED


@pytest.mark.parametrize("seed", range(2))
async def test_a_verdict_comes_true(desk: Desk, seed: int) -> None:
    await play(desk, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
async def test_verdicts_come_true_in_many_worlds(desk: Desk, seed: int) -> None:
    await play(desk, seed)


@pytest.mark.parametrize("source", sorted(SOURCES))
async def test_a_job_of_any_source_waits_for_its_lane_and_runs(desk: Desk, source: str) -> None:
    app, blocker, made = desk.app, BLOCKERS["a drained lane"], SOURCES[source]
    await prepare(desk)
    begun = None if made.brings is None else await made.begin(app, {})
    await blocker.close(app)
    if made.brings is None:
        begun = await made.begin(app, {})
    async with app.worker():
        job = await made.job(app, begun)
        if made.brings is not None:
            brought = OF_SOURCES[made.brings]
            await judged(app, job, blocked_by={made.brings}, named=set(brought.codes))
            await brought.lift(app, job)
        await judged(app, job, blocked_by={"a drained lane"}, named=set(blocker.codes))
        await blocker.lift(app, job)
        assert (await app.jobs.wait(job, timeout=60)).state is State.COMPLETED


@pytest.mark.parametrize("name", sorted(BLOCKERS))
async def test_each_blocker_is_named_by_itself(desk: Desk, name: str) -> None:
    app, blocker = desk.app, BLOCKERS[name]
    await prepare(desk)
    await blocker.close(app)
    job = (await app.jobs.submit("k", {}, **blocker.options)).job.id
    async with app.worker():
        said: list[str] = []

        async def named() -> bool:
            said[:] = (await app.jobs.explain(job)).codes
            return said[0] in blocker.codes

        try:
            await eventually(named)
        except AssertionError:
            pytest.fail(f"explain names {said}, not {sorted(blocker.codes)}")
        await judged(app, job, blocked_by={name})
        await blocker.lift(app, job)
        assert (await app.jobs.wait(job, timeout=60)).state is State.COMPLETED


# --- jobs that a carrier brings --------------------------------------------------------------------------------------


class Broker(Delivery):
    """A carrier that keeps its messages until the test hands them on; it may be away."""

    def __init__(self) -> None:
        super().__init__(name="broker", redeliver_after="1h")
        self.messages: list[str] = []
        self.sent = 0
        self.away = False

    @override
    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = "default") -> str | None:
        if self.away:
            raise ConnectionRefusedError
        self.messages.append(payload["job_id"])
        self.sent += 1
        return f"m{self.sent}"

    @override
    async def missing(self, backend_job_ids: Collection[str]) -> Collection[str]:
        return ()


BROUGHT = sorted({*BLOCKERS, "a broker that is away"} - {"a lane without slots"})
"""What holds back a job that a carrier brings. Its lane's slots are those of workers, and none is asked here."""


async def play_brought(desk: Desk, broker: Broker, chosen: list[str]) -> None:
    """One job of a carrier, held back by these; a process hands every message on as soon as it is there."""
    app = desk.app
    await prepare(desk)
    for name in sorted(chosen, key=lambda name: name in BLOCKERS and not BLOCKERS[name].uses_up):
        broker.away = broker.away or name not in BLOCKERS
        if name in BLOCKERS:
            await BLOCKERS[name].close(app)
    carried = Rowlock(app.settings.database_url, delivery=broker)

    @carried.job("k", rate=Rate.parse(PLENTY).for_key(RATE))
    async def k() -> None: ...

    options = {key: value for name in chosen if name in BLOCKERS for key, value in BLOCKERS[name].options.items()}
    worker = carried.make_worker(upkeep_only=True)
    await worker.start()
    try:
        job = (await carried.jobs.submit("k", {}, **options)).job.id
        left = set(chosen)
        for name in chosen:
            await told_truly(carried, broker, job, left)
            if name in BLOCKERS:
                await BLOCKERS[name].lift(app, job)
            broker.away = broker.away and name in BLOCKERS
            left.remove(name)
        await told_truly(carried, broker, job, left)
    finally:
        await worker.stop()
        await carried.close()


async def told_truly(carried: Rowlock, broker: Broker, job: int, left: set[str]) -> None:
    """What explain says of the job is so, and goes on to be so when the messages that are there are handed on."""
    codes: list[str] = []

    async def settled() -> bool:
        """Whether explain has heard of the newest state of the broker: a second later at most."""
        codes[:] = (await carried.jobs.explain(job)).codes
        return codes[0] != "undelivered" if not broker.away else codes[0] != "delivered"

    if "a broker that is away" in left:
        codes[:] = (await carried.jobs.explain(job)).codes
        assert codes[0] not in FREE | {"delivered", "no_worker"}, (left, codes)
    else:
        await eventually(settled)
        assert codes[0] not in {"ready", "no_worker", "lane_full"}, (left, codes)
        named = frozenset[str]().union(*(BLOCKERS[name].codes for name in left))
        assert codes[0] in named or not left, (left, codes)
    assert broker.sent or codes[0] != "delivered", "explain speaks of a message that was never sent"
    if not left:
        await eventually(lambda: handed_on(carried, broker, job))
        return
    await hand_on(carried, broker)
    now = await carried.jobs.get(job)
    assert now.state in (State.QUEUED, State.BLOCKED, State.PENDING), (left, codes, now.state)


async def hand_on(carried: Rowlock, broker: Broker) -> None:
    messages, broker.messages[:] = list(broker.messages), []
    for message in messages:
        await carried.run_delivered(message)


async def handed_on(carried: Rowlock, broker: Broker, job: int) -> bool:
    await hand_on(carried, broker)
    return (await carried.jobs.get(job)).state is State.COMPLETED


@pytest.mark.parametrize("name", [None, *BROUGHT])
async def test_what_is_said_of_a_job_that_a_carrier_brings_comes_true(desk: Desk, name: str | None) -> None:
    await play_brought(desk, Broker(), [] if name is None else [name])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
async def test_it_comes_true_in_many_worlds_of_carriers(desk: Desk, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    chosen = chance.sample(BROUGHT, chance.randrange(1, 4))
    used_up = [name for name in chosen if name in BLOCKERS and BLOCKERS[name].uses_up]
    await play_brought(desk, Broker(), [name for name in chosen if name not in used_up[1:]])
