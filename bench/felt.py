"""Latency as users feel it: after a request's commit, after a quiet time, beside a saturated lane."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench import adversity, machine, probe, roster, scenes
from bench.results import Reading, percentile, tell
from bench.stage import Failed

if TYPE_CHECKING:
    from bench.results import Results
    from bench.stage import Play, Stage

REQUESTS: Final = (5, 100, 1000)
"""Milliseconds of a transaction."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much. requests: jobs per length; quiet: seconds without a job; quiet_workers: each of them is one sample."""

    requests: int = 100
    quiet: float = 60.0
    quiet_workers: int = 8
    beside: int = 250
    backlog: int = 500_000
    warm: float = 3.0


FULL: Final = Size()
QUICK: Final = Size(requests=10, quiet=3.0, quiet_workers=2, beside=30, backlog=30_000, warm=1.5)


def run(stage: Stage, results: Results, rounds: int, size: Size) -> None:
    """Everything, in turn; the quiet time once, for it is long."""
    for number in range(rounds):
        for length in REQUESTS:
            results.add(tell(_reading(stage, f"request of {length} ms", number, size, length)))
        results.add(tell(_reading(stage, "beside a saturated lane", number, size, 0)))
    results.add(tell(_after_quiet(stage, size)))


def _reading(stage: Stage, name: str, number: int, size: Size, length: int) -> Reading:
    scene = f"felt: {name}"
    try:
        noise = machine.Noise(stage.own_time)
        values = _request(stage, size, length) if length else _beside(stage, size)
    except Failed as failure:
        return Reading("rowlock", scene, number, problem=str(failure))
    return Reading("rowlock", scene, number, values, noise.read())


def _request(stage: Stage, size: Size, length: int) -> dict[str, float]:
    jobs = max(5, min(size.requests, 30_000 // length))
    with stage.play(roster.ROWLOCK, slots=roster.ROWLOCK.latency_slots) as play:
        probe.expect(stage.folder, play.tag, jobs)
        play.awaken()
        time.sleep(size.warm)
        stage.quiet()
        play.call("request", "--milliseconds", str(length), "--jobs", str(jobs), module="bench.asking")
        return scenes.latencies(play, jobs)


def _beside(stage: Stage, size: Size) -> dict[str, float]:
    with stage.play(roster.ROWLOCK) as play:
        adversity.backlog(play, size.backlog)
        probe.expect(stage.folder, play.tag, size.beside)
        play.settle()
        play.work()
        play.wait_for_first()
        play.call("quick", "--jobs", str(size.beside), module="bench.asking")
        return scenes.latencies(play, size.beside) | {"still_busy": float(play.count().hits < size.backlog)}


def _after_quiet(stage: Stage, size: Size) -> Reading:
    """Several workers are left alone at once; each then gets one job, one after the other."""
    scene = f"felt: after {size.quiet:.0f} s of quiet"
    noise = machine.Noise(stage.own_time)
    with contextlib.ExitStack() as opened:
        plays = [
            opened.enter_context(stage.play(roster.ROWLOCK, slots=roster.ROWLOCK.latency_slots))
            for _ in range(size.quiet_workers)
        ]
        for play in plays:
            probe.expect(stage.folder, play.tag, 1)
            play.awaken()
        time.sleep(size.quiet)
        try:
            spans = [_one(play) for play in plays]
        except Failed as failure:
            return Reading("rowlock", scene, 0, problem=str(failure))
    values = {f"commit_p{int(share * 100)}": percentile(spans, share) for share in (0.5, 0.95, 0.99)}
    return Reading("rowlock", scene, 0, values, noise.read())


def _one(play: Play) -> float:
    play.call("pace", "--jobs", "1", "--warm", "0")
    return scenes.latencies(play, 1)["commit_p50"]
