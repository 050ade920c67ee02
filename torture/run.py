"""One scenario from the empty database to the verdict."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torture import checker, evidence, jobs
from torture.stage import Failed, Stage, eventually

if TYPE_CHECKING:
    from torture.evidence import Evidence
    from torture.scenario import Scenario
    from torture.server import Server

WARM: Final = 40
PATIENCE: Final = 90.0
"""Seconds beyond the bound for everything to become final: late is one verdict, never is another."""
_GRACE: Final = 20.0


@dataclass(frozen=True, slots=True)
class Result:
    """What one scenario showed. Seconds count from the end of the fault."""

    scenario: str
    does: str
    bound: float
    fault: float
    """Seconds it lasted."""
    acknowledged: int
    refused: int
    """Calls of producers that ended with an error."""
    runs: int
    lost: int
    """Attempts whose worker was lost; each was run again."""
    first: float | None
    """To the first job that was enqueued, claimed and completed."""
    recovery: float
    """To the last end of everything asked for before."""
    took: float
    violations: list[str] = field(default_factory=list)
    notes: dict[str, float] = field(default_factory=dict)
    rescued: float | None = None
    """To the last lost run that was back in the queue; None: none was lost any more."""
    seed: int = 0

    @property
    def ok(self) -> bool:
        """Whether every promise and the bound were kept."""
        return not self.violations and self.recovery <= self.bound

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "ok": self.ok}

    @classmethod
    def read(cls, plain: dict[str, Any]) -> Result:
        """From JSON."""
        return cls(**{name: value for name, value in plain.items() if name != "ok"})


async def run(
    scenario: Scenario,
    server: Server,
    seconds: float,
    *,
    warm: int = WARM,
    after: float | None = None,
    keep: Path | None = None,
    seed: int = 0,
) -> Result:
    """Set the stage, do the harm, wait, judge. keep: a folder for logs and ledger when something is wrong.

    warm: jobs completed before the fault begins; after: seconds of traffic behind it, instead of the scenario's own.
    """
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"rowlock-torture-{scenario.name}-"))
    name = f"torture_{scenario.name.replace('-', '_')}"
    try:
        async with server.database(name), Stage(server, name, folder, seed) as stage:
            try:
                found, moments, problems = await _played(
                    stage, scenario, seconds, warm, scenario.after if after is None else after
                )
            except Failed as failure:
                said = "\n".join(f"{process.name}: {process.said[-1500:]}" for process in stage.processes)
                raise Failed(f"{scenario.name}: {failure}\n{said}") from failure
            finally:
                await scenario.tear_down(stage)
            result = replace(
                _judged(scenario, found, moments, took=time.monotonic() - began, notes=stage.notes), seed=seed
            )
            result.violations.extend(problems)
            if not result.ok and keep is not None:
                (folder / "evidence.json").write_text(evidence.dumped(found))
                (folder / "violations.txt").write_text("\n".join(result.violations) + "\n")
                shutil.copytree(folder, keep / scenario.name, dirs_exist_ok=True)
            return result
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _played(
    stage: Stage, scenario: Scenario, seconds: float, warm: int, after: float
) -> tuple[Evidence, tuple[float, float], list[str]]:
    await scenario.set_up(stage)
    await stage.more(min(warm, scenario.warm))
    begin = time.time()
    await scenario.torment(stage, seconds)
    end = time.time()
    await asyncio.sleep(after)
    problems = await silenced(stage)
    await stage.final(scenario.bound + PATIENCE)
    problems += await scenario.judge(stage)
    problems += await ended(stage)
    connection = await stage.server.connect(stage.database)
    try:
        found = await evidence.collect(connection, stage.ledger, items=jobs.ITEMS, delays={"later": jobs.LATER})
    finally:
        await connection.close()
    found = replace(found, doomed=scenario.doomed, dropped=scenario.dropped, forgotten=scenario.forgotten)
    return found, (begin, end), problems


async def silenced(stage: Stage) -> list[str]:
    """Let the producers and the clock stop; returns what went wrong with them."""
    producers = [process for process in stage.processes if process.name.startswith("producer")]
    for producer in producers:
        producer.signal(signal.SIGTERM)
    problems = [
        f"{producer.name} did not end well: {producer.said[-500:]}"
        for producer in producers
        if await producer.end(_GRACE) != 0
    ]
    await stage.quiet_schedules()
    return problems


async def ended(stage: Stage) -> list[str]:
    """Stop the workers as an operator would; those that are dead already should not be."""
    problems = [
        f"{worker.name} had ended with {worker.popen.returncode}: {worker.said[-500:]}"
        for worker in stage.workers
        if not worker.alive
    ]
    living = [worker for worker in stage.workers if worker.alive]
    for worker in living:
        worker.signal(signal.SIGTERM)
    problems += [
        f"{worker.name} ended with {code} when told to stop: {worker.said[-500:]}"
        for worker in living
        if (code := await worker.end(_GRACE)) != 0
    ]
    # A slot that was due while they left may have been enqueued; nobody is there to run it, and nobody has to.
    await eventually(
        lambda: stage.ask("WITH gone AS (DELETE FROM jobs WHERE kind = 'tick' AND finished_at IS NULL) SELECT true"),
        "ticks",
        20,
    )
    return problems


def _judged(
    scenario: Scenario, found: Evidence, moments: tuple[float, float], *, took: float, notes: dict[str, float]
) -> Result:
    begin, end = moments
    ends = [
        (row.created_at, row.finished_at)
        for row in found.rows.values()
        if row.finished_at is not None and scenario.true_clock
    ]
    first = min((finished for created, finished in ends if created > end), default=float("inf"))
    last = max((finished for created, finished in ends if created <= end), default=end)
    if not all(row.is_final for row in found.rows.values()):
        last = float("inf")
    lost = [attempt for attempt in found.attempts if attempt.outcome == "lost"]
    rescues = [attempt.ended_at - end for attempt in lost if scenario.true_clock]
    return Result(
        scenario.name,
        scenario.does,
        scenario.bound,
        round(end - begin, 1),
        sum(asked.answer == "acknowledged" for asked in found.asked),
        sum(asked.answer == "unknown" for asked in found.asked),
        sum(line.what == "start" for line in found.lines),
        len(lost),
        None if first == float("inf") else round(first - end, 2),
        round(max(0.0, last - end), 2),
        round(took, 1),
        [str(violation) for violation in checker.check(found)],
        notes,
        round(max(rescues), 1) if rescues and max(rescues) > 0 else None,
    )
