"""Cursors and Claimer on the real store: what comes late, cold or out of order is still found."""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.factories import Store, opened, several

from rowlock.flow.claim.claimer import Claimer
from rowlock.flow.claim.cursors import Cursors
from rowlock.model.lane import Lane
from rowlock.model.rate import Rate
from rowlock.store.connections.worker_connection import WorkerConnection
from rowlock.store.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from rowlock.flow.claim.cursors import Probe
    from rowlock.model.queue_pair import Pair

SLOTS = 1000


class Clock:
    """A monotonic clock that moves when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class ClaimStage:
    """One worker's claimer and the hands of a producer beside it."""

    def __init__(self, store: Store, claimer: Claimer, cursors: Cursors, clock: Clock) -> None:
        self.store, self.claimer, self.cursors, self.clock = store, claimer, cursors, clock
        self.lane = "all"
        self.now: datetime | None = None

    async def read_pairs(self) -> None:
        rows = await self.store.fetch("pairs", kinds=[*self.claimer._kinds])
        self.cursors.publish(((row["kind"], row["priority"], row["share"]), row["low_water"]) for row in rows)

    async def sweep(self) -> None:
        await self.store.fetch("sweep")
        await self.read_pairs()

    async def claim(self, n: int = 10) -> list[int]:
        return [row["id"] for row in await self.claimer.claim({self.lane: n})]

    async def register(self, *pairs: tuple[str, int]) -> None:
        kinds, priorities = [kind for kind, _ in pairs], [priority for _, priority in pairs]
        await self.store.fetch("register_pairs", kinds=kinds, priorities=priorities, shares=[0] * len(pairs))
        await self.read_pairs()

    def probes(self, kinds: list[str], at: datetime | None = None) -> list[Probe]:
        return self.cursors.starts(self.cursors.pairs(kinds), at)

    async def pair(self, job: int) -> tuple[Pair, datetime]:
        row = await self.store.row(job)
        return (row["kind"], row["priority"], row["share"]), row["run_after"]


@contextlib.asynccontextmanager
async def stage(url: str, kinds: list[str], *lanes: Lane) -> AsyncIterator[ClaimStage]:
    database, clock = Database(url), Clock()
    link, cursors = WorkerConnection(database, "claim"), Cursors(clock)
    async with opened(database) as store:
        made = ClaimStage.__new__(ClaimStage)
        claimer = Claimer(link, await store.worker(), cursors, kinds, lambda: made.now)
        served = lanes or (Lane("all", kinds=("*",), slots=SLOTS),)
        claimer.serve({lane.name: lane for lane in served}, served)
        ClaimStage.__init__(made, store, claimer, cursors, clock)
        made.lane = served[0].name
        try:
            yield made
        finally:
            await link.close()


async def late_job(producer: Store, stage: ClaimStage) -> int:
    """Insert a job, let a later one be claimed, then commit: the job lands behind the cursor."""
    transaction = producer.connection.transaction()
    await transaction.start()
    late = await producer.enqueue("k")
    on_time = await stage.store.enqueue("k")
    assert await stage.claim() == [on_time]
    await transaction.commit()
    return late


@pytest.fixture
async def plain(database_url: str) -> AsyncIterator[ClaimStage]:
    async with stage(database_url, ["k"]) as made:
        await made.register(("k", 0))
        yield made


@pytest.fixture
async def producer(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as store:
        yield store


async def test_a_late_commit_is_found_by_the_wake_up_that_names_it(plain: ClaimStage, producer: Store) -> None:
    late = await late_job(producer, plain)
    assert await plain.claim() == [late]  # the lagged look that follows a claim
    late = await late_job(producer, plain)
    plain.clock.seconds += 0.5  # the lagged look is used up for a second
    assert await plain.claim() == []
    plain.cursors.lower(*await plain.pair(late))
    assert await plain.claim() == [late]


async def test_a_late_commit_is_found_by_the_lagged_look_within_a_second(plain: ClaimStage, producer: Store) -> None:
    await plain.store.enqueue("k")
    await plain.claim()
    await plain.claim()  # uses up this second's lagged look
    late = await late_job(producer, plain)
    assert await plain.claim() == []
    plain.clock.seconds += 1.0
    assert await plain.claim() == [late]


async def test_the_lagged_look_ends_ten_seconds_after_the_last_claim(plain: ClaimStage, producer: Store) -> None:
    late = await late_job(producer, plain)
    assert plain.cursors.lagging
    plain.clock.seconds += 10.1
    assert not plain.cursors.lagging
    assert await plain.claim() == []
    await plain.sweep()
    assert await plain.claim() == [late]


async def test_a_commit_later_than_the_lag_is_found_by_the_sweeps_low_water(plain: ClaimStage, producer: Store) -> None:
    late = await late_job(producer, plain)
    await plain.store.execute("UPDATE {s}.jobs SET run_after = run_after - interval '20 s' WHERE id = $1", late)
    for _ in range(3):
        assert await plain.claim() == []
        plain.clock.seconds += 1.0
    await plain.sweep()
    assert await plain.claim() == [late]


async def test_a_job_that_commits_while_an_empty_claim_is_under_way_is_not_skipped(plain: ClaimStage) -> None:
    """The claim saw nothing and would raise the cursor, but the wake-up came while it was under way."""
    job = await plain.store.enqueue("k")
    await plain.store.execute("UPDATE {s}.jobs SET run_after = run_after - interval '20 s', state = 'blocked'")
    pair, run_after = await plain.pair(job)
    probes = plain.probes(["k"])
    await plain.store.execute("UPDATE {s}.jobs SET state = 'queued'")
    plain.cursors.lower(pair, run_after)
    plain.cursors.probed(probes, drained=True)
    plain.cursors.exhausted(probes, await plain.store.clock())
    plain.clock.seconds += 11
    assert await plain.claim() == [job]


async def test_an_exhausted_pair_is_not_walked_again(plain: ClaimStage) -> None:
    plain.now = await plain.store.clock()
    assert await plain.claim() == []
    ((_, start),) = plain.probes(["k"])
    assert (plain.now - start).total_seconds() == 5


async def test_jobs_parked_at_a_gate_do_not_hide_those_behind_them(plain: ClaimStage) -> None:
    await plain.store.gate("busy", 0)
    for _ in range(3):
        await plain.store.enqueue("k", gate_key="busy")
    free = await plain.store.enqueue("k")
    await plain.store.execute("UPDATE {s}.jobs SET run_after = run_after - interval '1 minute'")
    plain.now = await plain.store.clock()
    assert await plain.claim(3) == []
    assert plain.claimer.backlogged
    plain.clock.seconds += 11  # beyond the lagged looks
    assert await plain.claim(3) == [free]
    assert not plain.claimer.backlogged


async def test_a_pair_nobody_registered_is_found_by_the_sweep(database_url: str) -> None:
    async with stage(database_url, ["k"]) as made:
        await made.read_pairs()
        job = await made.store.enqueue("k", priority=7)
        assert await made.claim() == []
        await made.sweep()
        assert await made.claim() == [job]


async def test_a_wake_up_for_a_scheduled_job_of_an_unknown_pair_hides_no_earlier_one(database_url: str) -> None:
    async with stage(database_url, ["k"]) as made:
        job = await made.store.enqueue("k")
        await made.store.execute("INSERT INTO {s}.jobs (kind, run_after) VALUES ('k', now() + interval '1 hour')")
        later = await made.store.value("SELECT max(id) FROM {s}.jobs")
        made.cursors.lower(*await made.pair(later))
        assert await made.claim() == [job]


async def test_a_scheduled_head_found_by_a_sweep_does_not_hide_jobs_enqueued_after_it(database_url: str) -> None:
    async with stage(database_url, ["k"]) as made:
        await made.store.execute("INSERT INTO {s}.jobs (kind, run_after) VALUES ('k', now() + interval '1 hour')")
        await made.store.fetch("sweep")
        job = await made.store.enqueue("k")
        await made.read_pairs()
        assert await made.claim() == [job]


async def test_order_is_priority_then_run_after_across_kinds(database_url: str) -> None:
    kinds = ["a", "b", "c"]
    async with stage(database_url, kinds) as made:
        for n in range(30):
            await made.store.enqueue(kinds[n % 3], priority=[10, 0, -10][n // 3 % 3])
        await made.sweep()
        wanted = await made.store.connection.fetch(
            "SELECT id FROM rowlock.jobs ORDER BY priority DESC, run_after, id LIMIT 17"
        )
        assert sorted(await made.claim(17)) == sorted(row["id"] for row in wanted)


async def test_strict_order_holds_with_two_claimers(database_url: str) -> None:
    lane = Lane("single", kinds=("*",), order="strict", slots=SLOTS)
    async with (
        stage(database_url, ["a", "b"], lane) as one,
        stage(database_url, ["a", "b"], lane) as two,
    ):
        await one.store.lane("single", kinds=["*"], ordering="strict")
        for n in range(60):
            await one.store.enqueue("ab"[n % 2], priority=n % 3)
        await one.sweep()
        await two.sweep()
        started: list[int] = []
        while rows := [*await one.claim(3), *await two.claim(4)]:
            started += rows
        wanted = await one.store.connection.fetch("SELECT id FROM rowlock.jobs ORDER BY priority DESC, run_after, id")
        in_sevens = [sorted(row["id"] for row in wanted[n : n + 7]) for n in range(0, 60, 7)]
        assert [sorted(started[n : n + 7]) for n in range(0, 60, 7)] == in_sevens


async def test_a_claim_that_waited_for_its_lane_sees_what_came_meanwhile(database_url: str) -> None:
    lane = Lane("single", kinds=("*",), order="strict", slots=SLOTS)
    async with stage(database_url, ["k"], lane) as made, several(database_url, 2) as (holder, watcher):
        await holder.lane("single", kinds=["*"], ordering="strict")
        await made.register(("k", 0))
        transaction = holder.connection.transaction()
        await transaction.start()
        await holder.fetch("lock_lanes", lanes=["single"])
        async with made.claimer._link.session() as session:
            pid = session.connection.get_server_pid()
        waiting = await watcher.blocked_pid(pid, made.claim())
        job = await watcher.enqueue("k")
        await transaction.commit()
        assert await waiting == [job]


async def test_cold_pairs_are_probed_once_per_sweep_and_hot_ones_each_time(database_url: str) -> None:
    async with stage(database_url, ["k"]) as made:
        await made.register(*(("k", priority) for priority in range(60)))
        assert len(made.probes(["k"])) == 60
        assert await made.claim() == []
        assert made.probes(["k"]) == []
        cold = await made.store.enqueue("k", priority=3)
        hot = await made.store.enqueue("k", priority=5)
        made.cursors.lower(*await made.pair(hot))
        assert await made.claim() == [hot]
        await made.sweep()
        assert await made.claim() == [cold]
        made.clock.seconds += 61
        assert made.probes(["k"]) == []


async def test_a_lane_without_free_slots_sees_its_cold_pairs_later(database_url: str) -> None:
    busy, idle = Lane("busy", kinds=("b",), slots=SLOTS), Lane("idle", kinds=("*",), slots=SLOTS)
    async with stage(database_url, ["b", "k"], busy) as made:
        made.claimer.serve({"busy": busy, "idle": idle}, [busy, idle])
        await made.register(*(("b", priority) for priority in range(60)), ("k", 0))
        await made.claimer.claim({"idle": 1})
        assert await made.claimer.claim({}) == []
        assert len(made.probes(["b"])) == 60


async def test_a_busy_lane_does_not_use_up_the_lagged_look_of_another(database_url: str, producer: Store) -> None:
    busy, quiet = Lane("busy", kinds=("b",), slots=SLOTS), Lane("quiet", kinds=("*",), slots=SLOTS)
    async with stage(database_url, ["b", "k"], quiet) as made:
        made.claimer.serve({"busy": busy, "quiet": quiet}, [busy, quiet])
        await made.register(("b", 0), ("k", 0))
        late = await late_job(producer, made)
        await made.store.enqueue("b")
        for _ in range(3):
            made.clock.seconds += 1.0
            await made.claimer.claim({"busy": 1})
        assert await made.claim() == [late]


async def test_a_job_claimed_by_its_id_does_not_hide_the_older_ones(plain: ClaimStage) -> None:
    older, named = [await plain.store.enqueue("k") for _ in range(2)]
    await plain.store.execute("UPDATE {s}.jobs SET run_after = run_after - interval '1 minute' WHERE id = $1", older)
    await plain.store.fetch("sweep")
    await plain.read_pairs()
    assert [row["id"] for row in await plain.claimer.claim_one(named, "all")] == [named]
    assert await plain.claim() == [older]


async def test_a_scheduled_job_is_not_claimed_early(plain: ClaimStage) -> None:
    await plain.store.execute("INSERT INTO {s}.jobs (kind, run_after) VALUES ('k', clock_timestamp() + interval '1 h')")
    assert await plain.claim() == []
    assert await plain.store.claim(1, await plain.store.value("SELECT max(id) FROM {s}.jobs")) == []
    await plain.store.execute("UPDATE {s}.jobs SET run_after = clock_timestamp()")
    assert len(await plain.claim()) == 1


async def test_five_hundred_pairs_are_served(database_url: str) -> None:
    kinds = [f"k{n}" for n in range(250)]
    async with stage(database_url, kinds) as made:
        everything = "SELECT 'k' || n, p FROM generate_series(0, 249) n, unnest(ARRAY[0, 5]) p"
        await made.store.execute(f"INSERT INTO {{s}}.jobs (kind, priority) {everything}")
        await made.sweep()
        rows = await made.claimer.claim({"all": 100})
        assert len(rows) == 100
        assert {row["priority"] for row in rows} == {5}
        rest = []
        while made.claimer.backlogged:  # cold pairs too, without waiting for a sweep
            rest += await made.claimer.claim({"all": 150})
        assert len(rest) == 400


async def test_what_one_lane_took_is_kept_when_another_lane_fails(database_url: str) -> None:
    """A claim that is dropped would belong to a live worker that does not know of it."""
    broken, fine = Lane("broken", kinds=("b",), max_total=1, slots=SLOTS), Lane("fine", kinds=("*",), slots=SLOTS)
    async with stage(database_url, ["b", "k"], fine) as made, opened(database_url) as holder:
        made.claimer.serve({"broken": broken, "fine": fine}, [broken, fine])
        await made.store.lane("broken", max_total=1)
        await made.register(("b", 0), ("k", 0))
        job = await made.store.enqueue("k")
        async with holder.connection.transaction():
            await holder.fetch("cap_enter", lanes=["broken"], free=[1])
            async with made.claimer._link.session() as session:
                await session.connection.execute("SET lock_timeout = '50ms'")
            rows = await made.claimer.claim({"broken": 1, "fine": 1})
        assert [row["id"] for row in rows] == [job]


async def test_crowded_lanes_take_turns_and_a_lane_that_was_left_out_is_asked_at_once(database_url: str) -> None:
    names = [f"lane{n}" for n in range(10)]
    lanes = [Lane(name, kinds=(name,), slots=4) for name in names]
    async with stage(database_url, names, *lanes) as made:
        await made.register(*[(name, 0) for name in names])
        for name in names:
            await made.store.execute(f"INSERT INTO {{s}}.jobs (kind) SELECT '{name}' FROM generate_series(1, 7)")
        everything = dict.fromkeys(names, 4)

        async def turn() -> dict[str, int]:
            rows = await made.claimer.claim(everything)
            return dict(Counter(row["lane"] for row in rows))

        assert await turn() == dict.fromkeys(names, 2)
        first = await turn()
        assert sorted(first.values()) == [4] * 5
        second = await turn()
        assert second == dict.fromkeys(names - first.keys(), 4)
        assert made.claimer.backlogged
        third = await turn()
        assert sum(third.values()) == 5  # one job is left in each: a turn that is not full
        assert made.claimer.backlogged
        assert await turn() == dict.fromkeys(names - third.keys(), 1)
        assert not made.claimer.backlogged
        assert await turn() == {}
        assert not made.claimer.backlogged


async def test_a_lane_that_was_left_out_is_worth_asking_though_it_had_nothing_before(database_url: str) -> None:
    names = [f"lane{n}" for n in range(10)]
    lanes = [Lane(name, kinds=(name,), slots=4) for name in names]
    async with stage(database_url, names, *lanes) as made:
        await made.register(*[(name, 0) for name in names])
        for name in names[:5]:
            await made.store.execute(f"INSERT INTO {{s}}.jobs (kind) SELECT '{name}' FROM generate_series(1, 9)")
        everything = dict.fromkeys(names, 4)
        assert len(await made.claimer.claim(everything)) == 10
        await made.store.enqueue(names[-1])
        assert {row["lane"] for row in await made.claimer.claim(everything)} == set(names[:5])
        assert made.claimer.backlogged == set(names)
        assert [row["lane"] for row in await made.claimer.claim(everything)] == [names[-1]]


@contextlib.asynccontextmanager
async def crowded(url: str, kinds: int, each: int, priorities: str = "0") -> AsyncIterator[ClaimStage]:
    """A lane of many kinds with `each` jobs, in turn, whose first claim was full."""
    names = [f"k{n}" for n in range(kinds)]
    async with stage(url, names) as made:
        await made.store.execute(
            "INSERT INTO {s}.jobs (kind, priority, run_after) "
            f"SELECT 'k' || n % {kinds}, p, now() - interval '1 hour' + n * interval '1 s' "
            f"FROM generate_series(0, {kinds * each - 1}) n, unnest(ARRAY[{priorities}]) p"
        )
        await made.sweep()
        made.now = await made.store.clock()
        assert len(await made.claim(16)) == 16
        yield made


async def asked(made: ClaimStage, monkeypatch: pytest.MonkeyPatch, free: int | dict[str, int]) -> tuple[list[str], int]:
    """The kinds that a claim of so many jobs brought, and how many pairs it looked at."""
    looked = 0
    starts = made.cursors.starts

    def counted(pairs: Sequence[Pair], at: datetime | None) -> list[Probe]:
        nonlocal looked
        looked += len(pairs)
        return starts(pairs, at)

    with monkeypatch.context() as patched:
        patched.setattr(made.cursors, "starts", counted)
        rows = await made.claimer.claim({"all": free} if isinstance(free, int) else free)
    return [row["kind"] for row in rows], looked


async def test_a_crowded_lane_of_many_kinds_looks_at_the_oldest_only(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crowded(database_url, kinds=40, each=4) as made:
        kinds, looked = await asked(made, monkeypatch, 16)
        assert looked == 2
        assert kinds == ["k0"] * 3 + ["k1"] * 3  # all that the two have, one after the other
        rest = 160 - 16 - 6
        while made.claimer.backlogged:
            rest -= len((await asked(made, monkeypatch, 16))[0])
        assert rest == 0


async def test_a_lane_that_its_oldest_pairs_do_not_fill_is_looked_at_whole(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crowded(database_url, kinds=40, each=1) as made:
        few, looked = await asked(made, monkeypatch, 16)
        assert (len(few), looked) == (0, 2)  # two of those that were emptied first
        assert made.claimer.backlogged
        kinds, looked = await asked(made, monkeypatch, 16)
        assert (len(kinds), looked) == (16, 40)


async def test_pairs_that_have_run_dry_do_not_keep_a_crowded_lane_from_the_others(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crowded(database_url, kinds=40, each=1) as made:
        await made.store.execute(
            "INSERT INTO {s}.jobs (kind, run_after) SELECT 'k' || n % 4 + 30, "
            "now() - interval '10 min' + n * interval '1 s' FROM generate_series(0, 399) n"
        )
        turns = [await asked(made, monkeypatch, 16) for _ in range(20)]
        narrow = [len(kinds) for kinds, looked in turns if looked == 2]
        assert len(narrow) > 10
        assert sum(n == 16 for n in narrow) > len(narrow) / 2
        assert made.claimer.backlogged


async def test_a_crowded_lane_is_emptied_pair_by_pair_beside_lanes_whose_heads_are_merged(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd, calm = [f"c{n}" for n in range(10)], ["x", "y"]
    lanes = Lane("crowd", kinds=tuple(crowd), slots=8), Lane("calm", kinds=tuple(calm), slots=8)
    async with stage(database_url, crowd + calm, *lanes) as made:
        await made.store.execute(
            "INSERT INTO {s}.jobs (kind, run_after) "
            "SELECT 'c' || n % 10, now() - interval '1 hour' + n * interval '1 s' FROM generate_series(0, 89) n"
        )
        await made.sweep()
        assert len(await made.claimer.claim({"crowd": 4})) == 4
        await made.store.execute(
            "INSERT INTO {s}.jobs (kind, run_after) SELECT (ARRAY['x', 'y'])[n % 2 + 1], "
            "now() - interval '10 min' + n * interval '1 s' FROM generate_series(0, 5) n"
        )
        await made.sweep()
        made.now = await made.store.clock()
        kinds, looked = await asked(made, monkeypatch, {"crowd": 4, "calm": 4})
        assert looked == 2 + 2
        assert [kind for kind in kinds if kind in crowd] == ["c0"] * 4
        assert Counter(kind for kind in kinds if kind in calm) == {"x": 2, "y": 2}
        rest: list[str] = []
        while made.claimer.backlogged:
            rest += (await asked(made, monkeypatch, {"crowd": 4, "calm": 4}))[0]
        assert len(rest) == 90 + 6 - 4 - 8


async def test_a_lane_that_is_full_of_jobs_is_worth_more_whatever_its_neighbours_have(database_url: str) -> None:
    lanes = Lane("busy", kinds=("b",), slots=8), Lane("idle", kinds=("i",), slots=8)
    async with stage(database_url, ["b", "i"], *lanes) as made:
        await made.register(("b", 0), ("i", 0))
        await made.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'b' FROM generate_series(1, 10)")
        both = {"busy": 4, "idle": 4}
        assert len(await made.claimer.claim(both)) == 4
        assert made.claimer.backlogged == {"busy"}
        assert await made.claimer.claim({"idle": 4}) == []  # the other has no free slot for now
        assert made.claimer.backlogged == {"busy"}
        assert len(await made.claimer.claim(both)) == 4
        assert len(await made.claimer.claim(both)) == 2
        assert not made.claimer.backlogged


async def test_the_few_jobs_of_a_quiet_lane_start_before_the_many_of_a_busy_one(database_url: str) -> None:
    lanes = Lane("busy", kinds=("b",), slots=8), Lane("quiet", kinds=("q",), slots=8)
    async with stage(database_url, ["b", "q"], *lanes) as made:
        await made.register(("b", 0), ("q", 0))
        busy = [await made.store.enqueue("b") for _ in range(3)]
        quiet = [await made.store.enqueue("q") for _ in range(2)]
        assert [row["id"] for row in await made.claimer.claim({"busy": 4, "quiet": 4})] == quiet + busy


async def test_a_lane_that_its_cap_keeps_closed_is_not_worth_asking_at_once(database_url: str) -> None:
    """A worker that asked all the same would ask as fast as it can, for as long as the cap holds."""
    capped = Lane("capped", kinds=("k",), max_total=2, slots=8)
    async with stage(database_url, ["k"], capped) as made:
        await made.store.lane("capped", max_total=2)
        await made.register(("k", 0))
        await made.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' FROM generate_series(1, 10)")
        assert len(await made.claimer.claim({"capped": 1})) == 1
        assert made.claimer.backlogged == {"capped"}
        assert len(await made.claimer.claim({"capped": 4})) == 1
        assert not made.claimer.backlogged
        assert await made.claimer.claim({"capped": 4}) == []
        assert not made.claimer.backlogged


async def test_a_lane_that_rests_is_not_worth_asking(database_url: str) -> None:
    """It is not asked before its rate has room; a worker that did not know would loop until then."""
    rated = Lane("rated", kinds=("k",), rate=Rate(2, "1h"), slots=8)
    async with stage(database_url, ["k"], rated) as made:
        await made.register(("k", 0))
        await made.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' FROM generate_series(1, 10)")
        made.now = await made.store.clock()
        assert len(await made.claimer.claim({"rated": 1})) == 1
        assert made.claimer.backlogged == {"rated"}
        made.claimer._resting["rated"] = made.now + timedelta(minutes=5)  # as a released step of a chain leaves it
        assert not made.claimer.backlogged
        made.now += timedelta(minutes=6)
        assert made.claimer.backlogged == {"rated"}


async def test_a_crowd_before_a_cap_is_not_worth_asking_at_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [f"k{n}" for n in range(10)]
    capped = Lane("capped", kinds=tuple(kinds), max_total=6, slots=8)
    async with stage(database_url, kinds, capped) as made:
        await made.store.lane("capped", max_total=6)
        await made.store.execute("INSERT INTO {s}.jobs (kind) SELECT 'k' || n % 10 FROM generate_series(1, 90) n")
        await made.sweep()
        assert len(await made.claimer.claim({"capped": 4})) == 4
        assert made.claimer.backlogged == {"capped"}
        taken, looked = await asked(made, monkeypatch, {"capped": 4})
        assert (len(taken), looked) == (2, 2)  # as many as the cap has room for, from the oldest pairs
        assert not made.claimer.backlogged


async def test_the_higher_priorities_of_a_crowded_lane_are_emptied_by_age_too(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name, a kind that is refilled as fast as it is drained would keep those behind it waiting for ever."""
    async with crowded(database_url, kinds=20, each=2) as made:
        await made.store.execute(
            "INSERT INTO {s}.jobs (kind, priority, run_after) SELECT k, 5, now() - age "
            "FROM (VALUES ('k1', interval '1 min'), ('k9', interval '1 hour')) v(k, age), generate_series(1, 8)"
        )
        await made.sweep()
        kinds, _ = await asked(made, monkeypatch, 8)
        assert kinds == ["k9"] * 8


async def test_a_level_that_was_not_read_is_not_taken_for_young(database_url: str) -> None:
    async with stage(database_url, [f"k{n}" for n in range(20)]) as made:
        await made.store.execute(
            "INSERT INTO {s}.jobs (kind, priority, run_after) SELECT 'k' || n % 20, 0, now() - interval '1 h' "
            "- (20 - n % 20) * interval '1 s' FROM generate_series(0, 99) n"
        )
        await made.store.execute(
            "INSERT INTO {s}.jobs (kind, priority) SELECT 'k' || n % 2, 5 FROM generate_series(0, 15) n"
        )
        await made.sweep()
        low = {pair: made.cursors._age[pair] for pair in made.cursors.pairs([*made.claimer._kinds]) if pair[1] == 0}
        assert len(await made.claim(16)) == 16  # all of the higher priority
        assert {pair: made.cursors._age[pair] for pair in low} == low


async def test_what_is_heard_of_during_a_claim_stays_old(plain: ClaimStage) -> None:
    pair = ("k", 0, 0)
    now = await plain.store.clock()
    plain.probes(["k"], now)  # a claim is under way
    plain.cursors.lower(pair, now - timedelta(minutes=1))
    age = plain.cursors._age[pair]
    plain.cursors.passed([pair], now)
    assert plain.cursors._age[pair] == age
    plain.probes(["k"], now)
    plain.cursors.passed([pair], now)
    assert plain.cursors._age[pair] == now


async def test_what_a_crowd_told_is_kept_though_another_lane_failed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a claim would look at the same dry pairs for as long as the other lane fails."""
    kinds = [f"k{n}" for n in range(40)]
    crowd, broken = Lane("all", kinds=tuple(kinds), slots=SLOTS), Lane("broken", kinds=("b",), max_total=1, slots=4)
    async with stage(database_url, [*kinds, "b"], crowd, broken) as made, opened(database_url) as holder:
        await made.store.lane("broken", max_total=1)
        await made.store.execute(
            "INSERT INTO {s}.jobs (kind, run_after) SELECT 'k' || n, now() - interval '1 h' + n * interval '1 s' "
            "FROM generate_series(0, 39) n"
        )
        await made.sweep()
        made.now = await made.store.clock()
        assert len(await made.claim(16)) == 16
        both = {"all": 16, "broken": 1}
        async with holder.connection.transaction():
            await holder.fetch("cap_enter", lanes=["broken"], free=[1])
            async with made.claimer._link.session() as session:
                await session.connection.execute("SET lock_timeout = '50ms'")
            assert await made.claimer.claim(both) == []  # two pairs that are dry, and the lane that fails
            taken, looked = await asked(made, monkeypatch, both)
        assert (len(taken), looked) == (16, 40)


async def test_no_priority_is_overtaken_because_a_lane_is_crowded(database_url: str) -> None:
    async with crowded(database_url, kinds=20, each=10, priorities="0, 5") as made:
        taken = []
        while made.claimer.backlogged:
            taken += [row["priority"] for row in await made.claimer.claim({"all": 16})]
        assert taken == [5] * 184 + [0] * 200


async def test_a_pair_that_is_far_behind_is_not_looked_at_with_the_lag(plain: ClaimStage) -> None:
    """What is enqueued now lands before its cursor; the dead entries behind it would be read for nothing."""
    await plain.store.execute(
        "INSERT INTO {s}.jobs (kind, run_after) SELECT 'k', now() - n * interval '1 s' FROM generate_series(1, 60) n"
    )
    plain.now = await plain.store.clock()
    await plain.claim(10)
    ((_, far),) = plain.probes(["k"], plain.now)
    ((_, behind),) = plain.probes(["k"], far + timedelta(seconds=9))
    assert (far - behind) == timedelta(seconds=5)
