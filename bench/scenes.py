"""What is measured of every subject: enqueueing, draining, latency, idling."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from bench import gauges, machine, probe
from bench.gauges import Gauges
from bench.results import percentile
from bench.stage import Failed

if TYPE_CHECKING:
    from psycopg import Connection

    from bench.roster import Subject
    from bench.stage import Play, Stage

_LOOK: Final = 0.01
_DURABLE: Final = 15.0
"""Seconds from the last handler's start to the last durable end."""
_STATISTICS: Final = 1.2
"""Seconds until PostgreSQL's counters have arrived."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything. quick sizes show that it works; full ones are for figures."""

    singles: int = 2000
    bulk: int = 50_000
    backlog: float = 1.0
    """Share of a subject's own backlog."""
    longest: float = 8.0
    """Seconds after which a drain is cut off; handlers run until then count."""
    pickups: int = 250
    steady: float = 10.0
    """Seconds at the steady rate."""
    idle: float = 30.0
    warm: float = 3.0
    """Seconds for a worker to be ready."""
    rest: float = 12.0
    """Seconds until one that is weighed idle has come to rest: some look around more often after their last job."""
    gauged: bool = True
    """Whether a drain also reads what PostgreSQL counted, which takes a second to arrive."""


FULL: Final = Size()
QUICK: Final = Size(200, 5000, 0.1, 3.0, 50, 2.0, 4.0, 1.5, 1.5)
STEADY_RATE: Final = 500.0


class Scene(Protocol):
    """A measurement of one subject; returns values by name, `noise` among them."""

    def __call__(self, stage: Stage, subject: Subject, size: Size) -> dict[str, float]:
        """Measure once; Failed says why not."""
        ...


def enqueue_one(stage: Stage, subject: Subject, size: Size) -> dict[str, float]:
    """One by one, each awaited, from one process."""
    return _enqueue(stage, subject, size.singles)


def enqueue_bulk(stage: Stage, subject: Subject, size: Size) -> dict[str, float]:
    """The fastest call that takes many."""
    if not subject.bulk:
        raise Failed("has no bulk call")
    jobs = size.bulk if subject.backlog >= FULL.bulk else min(size.bulk, subject.backlog)
    return _enqueue(stage, subject, jobs, "--many")


def _enqueue(stage: Stage, subject: Subject, jobs: int, *how: str) -> dict[str, float]:
    with stage.play(subject) as play:
        stage.quiet()
        before, cpu = Gauges.read(stage.server, play.tag), stage.server.processor_time()
        noise = machine.Noise(stage.own_time)
        answer = play.call("enqueue", "--jobs", str(jobs), *how)
        foreign = noise.read()
        after = Gauges.read(stage.server, play.tag).since(before)
        values = {"rate": jobs / answer["seconds"], "client_us": answer["cpu"] / jobs * 1e6}
        values["noise"] = foreign
        if subject.store == "PostgreSQL":
            values |= {"wal": after.wal / jobs, "server_us": (stage.server.processor_time() - cpu) / jobs * 1e6}
        return values


def drain_one(stage: Stage, subject: Subject, size: Size) -> dict[str, float]:
    """A backlog of no-ops, one worker process."""
    return drain(stage, subject, size, workers=1)


def drain_two(stage: Stage, subject: Subject, size: Size) -> dict[str, float]:
    """A backlog of no-ops, two worker processes."""
    return drain(stage, subject, size, workers=2)


def drain(stage: Stage, subject: Subject, size: Size, *, workers: int) -> dict[str, float]:
    """From the first handler's start to the last durable end; the workers' own start is left out."""
    if not subject.drains:
        raise Failed("cannot drain what was enqueued before its worker started")
    jobs = max(200, int(subject.backlog * size.backlog))
    with stage.play(subject) as play:
        fill(play, jobs)
        play.settle()
        stage.quiet()
        return emptied(play, jobs, workers, size.longest, gauged=size.gauged)


def fill(play: Play, jobs: int) -> None:
    """Put jobs into the queue."""
    play.call("enqueue", "--jobs", str(jobs), *(["--many"] if play.subject.bulk else ["--together", "10"]))


def emptied(
    play: Play, jobs: int, workers: int, longest: float, *, endless: bool = False, gauged: bool = True
) -> dict[str, float]:
    """Start workers on a full queue and time them until it is empty, or until `longest` seconds have passed.

    endless: there is more in the queue than `jobs`, so the start of the last of them is the end.
    """
    server = play.stage.server
    before = Gauges.read(server, play.tag)
    with server.connect(play.tag) as watching:
        watching.execute("SET enable_seqscan = off")
        play.work(workers)
        values = _timed(play, jobs, longest, None if endless else watching)
    play.stop()
    if gauged and play.subject.store == "PostgreSQL":
        time.sleep(_STATISTICS)
        done, after = max(1, play.count().hits), Gauges.read(server, play.tag).since(before)
        values |= {"wal": after.wal / done, "dead": after.dead / done, "statements": after.statements / done}
        values["blocks"] = after.blocks / done
    return values


def _timed(play: Play, jobs: int, longest: float, watching: Connection[Any] | None) -> dict[str, float]:
    """watching: a connection to see the last durable end; None: the last start will do."""
    stage, first = play.stage, play.wait_for_first()
    noise = machine.Noise(stage.own_time)
    began, client, server = time.time(), machine.trees_time(play.pids), stage.server.processor_time()
    while (count := play.count()).hits < jobs and time.time() - first.first < longest:
        play.check_alive()
        time.sleep(_LOOK)
    cut = count.hits < jobs
    end = time.time() if cut or watching is None else _durable_end(play, count, watching)
    values = {"noise": noise.read(), "cut": float(cut), "rate": count.hits / max(end - first.first, 1e-6)}
    seen = count.hits - first.hits
    # A short backlog may be gone before the first look: then there is nothing to divide processor time by.
    if seen > jobs / 4:
        spent = machine.trees_time(play.pids) - client, stage.server.processor_time() - server
        values |= {"client_us": spent[0] / seen * 1e6, "server_us": spent[1] / seen * 1e6}
        values["cores"] = sum(spent) / max(time.time() - began, 1e-6)
    return values


def _durable_end(play: Play, count: probe.Count, watching: Connection[Any]) -> float:
    if play.subject.unfinished is None:
        return count.last
    deadline = time.monotonic() + _DURABLE
    while watching.execute(play.subject.unfinished).fetchone() is not None:
        if time.monotonic() > deadline:
            raise Failed(f"jobs are unfinished {_DURABLE:.0f} s after the last one started")
        time.sleep(_LOOK / 2)
    return time.time()


def pickup(stage: Stage, subject: Subject, size: Size) -> dict[str, float]:
    """Latency on an idle queue: a job every 20 ms."""
    return _paced(stage, subject, size, size.pickups, ("--rate", "50"))


def steady(stage: Stage, subject: Subject, size: Size) -> dict[str, float]:
    """Latency at 500 jobs a second, counted from when each job was due."""
    jobs = int(STEADY_RATE * size.steady)
    return _paced(stage, subject, size, jobs, ("--rate", str(STEADY_RATE), "--together", "16"))


def _paced(stage: Stage, subject: Subject, size: Size, jobs: int, how: tuple[str, ...]) -> dict[str, float]:
    if not subject.picks_up:
        raise Failed("has no worker that waits")
    with stage.play(subject, slots=subject.latency_slots) as play:
        probe.expect(stage.folder, play.tag, jobs)
        play.awaken()
        time.sleep(size.warm)
        stage.quiet()
        noise = machine.Noise(stage.own_time)
        answer = play.call("pace", "--jobs", str(jobs), *how)
        foreign = noise.read()
        return latencies(play, jobs) | {"noise": foreign, "rate": jobs / answer["seconds"]}


def latencies(play: Play, jobs: int, patience: float = 10.0) -> dict[str, float]:
    """Milliseconds from call and from commit to the handler's start; `missing` jobs had not started in time."""
    folder, deadline = play.stage.folder, time.monotonic() + patience
    while not all(starts := probe.starts(folder, play.tag)) and time.monotonic() < deadline:
        time.sleep(0.05)
    called, returned = probe.calls(folder, play.tag)
    values: dict[str, float] = {"missing": float(jobs - sum(map(bool, starts)))}
    for name, since in (("call", called), ("commit", returned)):
        spans = [(at - begin) * 1e3 for at, begin in zip(starts, since, strict=True) if at]
        if not spans:
            raise Failed("no job was picked up")
        # A handler may start before the producer hears of its own commit.
        values |= {f"{name}_p{int(share * 100)}": max(0.0, percentile(spans, share)) for share in (0.5, 0.95, 0.99)}
    return values


def idle(stage: Stage, subject: Subject, size: Size) -> dict[str, float]:
    """What a worker costs that has nothing to do."""
    if not subject.picks_up:
        raise Failed("has no worker that waits")
    with stage.play(subject, slots=subject.latency_slots) as play:
        play.awaken()
        time.sleep(size.rest)
        noise = machine.Noise(stage.own_time)
        before, cpu, began = Gauges.read(stage.server, play.tag), machine.trees_time(play.pids), time.monotonic()
        time.sleep(size.idle)
        seconds = time.monotonic() - began
        spent = machine.trees_time(play.pids) - cpu
        after = Gauges.read(stage.server, play.tag).since(before)
        play.check_alive()
        values: dict[str, Any] = {
            "noise": noise.read(),
            "rss_mb": machine.resident(play.pids),
            "processes": float(len(play.pids)),
            "cpu_percent": spent / seconds * 100,
        }
        if subject.store == "PostgreSQL":
            values |= {"connections": float(gauges.connections(stage.server, play.tag))}
            values |= {"transactions": after.transactions / seconds}
            if stage.server.counts_statements:
                values |= {"statements": after.statements / seconds}
        return values


ONCE: Final = frozenset({"idle"})
"""Long, and the same each time: measured in the first round only."""
SCENES: Final[dict[str, Scene]] = {
    "enqueue": enqueue_one,
    "bulk": enqueue_bulk,
    "drain": drain_one,
    "drain2": drain_two,
    "pickup": pickup,
    "steady": steady,
    "idle": idle,
}
