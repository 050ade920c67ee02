"""One soak: workers, a producer and retention for as long as asked; then what grew, and the checker's word."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from torture import checker, evidence, jobs
from torture.run import ended, silenced
from torture.soak.harvest import Harvest
from torture.soak.measures import MEASURES
from torture.soak.sampler import Sampler, children
from torture.soak.series import Series, Verdict, judge
from torture.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping, Sequence

    import asyncpg

    from torture.evidence import Evidence
    from torture.server import Server

T = TypeVar("T")
RATE: Final = 25.0
"""Calls a second, of about 1.2 jobs; fewer where answers take longer than that leaves between them."""
DOOMED: Final = frozenset({"doomed"})
DROPPED: Final = frozenset({"dropped"})
QUICK: Final = frozenset({"once", "joined", "thread"})
"""Kinds that wait for nothing and take no time of their own: their latency is the engine's."""
LANES: Final = "default:kinds=*,slots=10,stale=30s,poll=1s"
"""Nobody is killed here, and a busy machine must not make anybody look dead."""
# That a slot has had its job is known for 30 days: the one retention that cannot be set shorter.
_AGE_SLOTS: Final = """
UPDATE rowlock.job_keys SET expires_at = created_at + $1::interval WHERE expires_at > now() + 2 * $1::interval
"""
_WARM: Final = 30
"""Jobs before the clock begins to run."""
_FINAL: Final = 60.0
_SAMPLES: Final = 600
_SAY_EVERY: Final = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, how much. Seconds; what happens once in a while is made to happen about twenty times."""

    seconds: float
    rate: float = RATE
    supervised: bool = False
    """One supervisor with two processes instead of two workers."""

    @property
    def warm(self) -> float:
        """Not judged: caches fill, tables reach the size that retention leaves them."""
        return 0.3 * self.seconds

    @property
    def keep(self) -> float:
        """How long finished jobs stay."""
        return min(60.0, max(3.0, self.seconds / 15))

    @property
    def nap(self) -> float:
        """Between two looks of autovacuum."""
        return min(60.0, max(1.0, self.seconds / 20))

    @property
    def every(self) -> float:
        """Between two samples."""
        return max(0.5, self.seconds / _SAMPLES)

    @property
    def settings(self) -> dict[str, str]:
        """Of the server."""
        return {"autovacuum_naptime": f"{self.nap:.0f}s"}


@dataclass(frozen=True, slots=True)
class Result:
    """What a soak showed."""

    plan: Plan
    verdicts: Sequence[Verdict]
    violations: Sequence[str]
    """Promises that were not kept, as the checker has them, and processes that did not end well."""
    jobs: int
    runs: int
    removed: int
    """Jobs that retention had removed while it ran."""
    refused: int = 0
    """Calls of the producer that ended with an error."""

    @property
    def unjudged(self) -> list[str]:
        """Measures of which nothing could be judged."""
        judged = {verdict.measure for verdict in self.verdicts if verdict.is_judged}
        return [name for name in MEASURES if name not in judged]

    @property
    def ok(self) -> bool:
        """Whether everything was measured, is flat, and every promise was kept."""
        return not self.violations and not self.unjudged and all(verdict.ok for verdict in self.verdicts)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "unjudged": self.unjudged, "ok": self.ok}


async def soak(
    server: Server,
    plan: Plan,
    *,
    keep: Path | None = None,
    environments: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
) -> Result:
    """Run it. keep: a folder for logs and ledger when something is wrong; environments: more for each worker."""
    folder = Path(tempfile.mkdtemp(prefix="rowlock-soak-"))
    try:
        async with server.database("torture_soak"), Stage(server, "torture_soak", folder) as stage:
            processes = await _set_up(stage, plan, environments)
            result = await _soaked(stage, plan, processes)
            if not result.ok and keep is not None:
                (folder / "violations.txt").write_text("\n".join(result.violations) + "\n")
                shutil.copytree(folder, keep / "soak", dirs_exist_ok=True)
            return result
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _set_up(stage: Stage, plan: Plan, environments: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """Start everything; returns the processes to watch."""
    await stage.ask("UPDATE duties SET every = make_interval(secs => $1) WHERE name = 'prune'", plan.keep / 3)
    stage.environment |= {
        "ROWLOCK_LANES": LANES,
        "TORTURE_KEEP_KEY": f"{plan.keep:.0f}s",
        "ROWLOCK_AUDIT_KEEP": f"{plan.keep:.0f}s",
    }
    app = ("--app", "torture.soak.app:app")
    if plan.supervised:
        supervisor = stage.worker(*app, "--processes", "2")
        await stage.up(2)
        pids = [int(pid) for pid in (await stage.ask("SELECT array_agg(pid ORDER BY pid) FROM workers"))]
        below = [pid for pid in children(supervisor.popen.pid) if pid in pids]
        processes = {"supervisor": supervisor.popen.pid} | {f"worker {n}": pid for n, pid in enumerate(below, 1)}
    else:
        workers = [stage.worker(*app, port=None, **given) for given in environments]
        processes = {f"worker {n}": worker.popen.pid for n, worker in enumerate(workers, 1)}
        await stage.up(2)
    producer = stage.producer(plan.rate, module="torture.soak.producer")
    await stage.more(_WARM)
    return processes | {"producer": producer.popen.pid}


async def _soaked(stage: Stage, plan: Plan, processes: Mapping[str, int]) -> Result:
    began = time.time()
    connection = await stage.server.connect(stage.database)
    try:
        sampler, harvest = Sampler(connection, processes), Harvest(plan.keep)
        # Retention begins after the first look: ticks that ran while everything started are counted, too.
        await _look(connection, plan, harvest)
        await stage.ask("UPDATE retention SET keep = make_interval(secs => $1)", plan.keep)
        await _watched(connection, plan, sampler, harvest)
        until = time.time()
        problems = await _harvested(connection, plan, harvest, _ending(stage))
        found = harvest.whole(await _seen(connection), time.time())
    finally:
        await connection.close()
    found = replace(evidence.with_ledger(found, stage.ledger), doomed=DOOMED, dropped=DROPPED)
    sampler.read(stage.ledger)
    return Result(
        plan,
        judged([*sampler.series(), *latencies(found)], began + plan.warm, until),
        [*problems, *harvest.early, *map(str, checker.check(found))],
        len(found.rows),
        sum(line.what == "start" for line in found.lines),
        harvest.removed,
        sum(asked.answer == "unknown" for asked in found.asked),
    )


async def _seen(connection: asyncpg.Connection[asyncpg.Record]) -> Evidence:
    return await evidence.tables(connection, items=jobs.ITEMS, delays={"later": jobs.LATER})


async def _watched(
    connection: asyncpg.Connection[asyncpg.Record], plan: Plan, sampler: Sampler, harvest: Harvest
) -> None:
    """Sample and harvest until the time is over; say now and then how it goes."""
    began = time.monotonic()
    next_harvest = next_word = 0.0
    while (passed := time.monotonic() - began) < plan.seconds:
        await sampler()
        if passed >= next_harvest:
            await _look(connection, plan, harvest)
            next_harvest = passed + plan.keep / 4
        if passed >= next_word:
            _say(passed, sampler, harvest)
            next_word = passed + _SAY_EVERY
        spent = time.monotonic() - began - passed
        await asyncio.sleep(max(0.05, plan.every - spent))


async def _look(connection: asyncpg.Connection[asyncpg.Record], plan: Plan, harvest: Harvest) -> None:
    await connection.execute(_AGE_SLOTS, timedelta(seconds=plan.keep))
    began = time.time()
    seen = await _seen(connection)
    # now is read afterwards: what is missing was removed before this moment.
    harvest.take(seen, time.time(), began)


async def _harvested(
    connection: asyncpg.Connection[asyncpg.Record], plan: Plan, harvest: Harvest, work: Coroutine[object, object, T]
) -> T:
    """The answer of the work; until then retention goes on, and so does the harvest."""
    working = asyncio.create_task(work)
    while not working.done():
        await _look(connection, plan, harvest)
        await asyncio.wait({working}, timeout=plan.keep / 4)
    return working.result()


async def _ending(stage: Stage) -> list[str]:
    """Let everything end in its order; returns what went wrong."""
    problems = await silenced(stage)
    await stage.final(_FINAL)
    return problems + await ended(stage)


def _say(passed: float, sampler: Sampler, harvest: Harvest) -> None:
    memory = ", ".join(f"{sampler.latest('resident memory', f'worker {n}'):.1f}" for n in (1, 2))
    sys.stderr.write(
        f"{passed:6.0f} s  {harvest.jobs} jobs, {harvest.removed} removed, backlog"
        f" {sampler.latest('backlog', 'queue'):.0f}, workers {memory} MB,"
        f" {sampler.latest('connections', 'server'):.0f} connections\n"
    )


def latencies(found: Evidence) -> list[Series]:
    """Milliseconds from the enqueue to the first start and to the end, of quick jobs, by the moment of their end."""
    starts: dict[int, float] = {}
    for line in found.lines:
        if line.what == "start":
            starts.setdefault(line.job, line.at)
    points: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in found.rows.values():
        if row.kind in QUICK and row.finished_at is not None and row.id in starts:
            points["start"].append((row.finished_at, 1000 * max(0.0, starts[row.id] - row.created_at)))
            points["end"].append((row.finished_at, 1000 * (row.finished_at - row.created_at)))
    return [Series(f"enqueue to {end}, {of}", "quick jobs", points[end]) for end in points for of in ("p50", "p99")]


def judged(series: Iterable[Series], since: float, until: float) -> list[Verdict]:
    """Every verdict, measure by measure."""
    verdicts = [judge(one, MEASURES[one.measure], since, until) for one in series]
    order = list(MEASURES)
    return sorted(verdicts, key=lambda verdict: (order.index(verdict.measure), verdict.of))
