"""rowlock bench: how fast Rowlock is here, on your own database, in under a minute."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rowlock.app import Rowlock
from rowlock.cli.command import register_sync
from rowlock.cli.context import CommandContext
from rowlock.cli.process.worker_main import loop_factory
from rowlock.errors import InvalidOption
from rowlock.model.database_url import shown
from rowlock.model.lane import Lane
from rowlock.model.state import State
from rowlock.store import embedded
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowlock.settings import Settings
    from rowlock.tasks import Task

_BATCH: Final = 1000
_SINGLES: Final = 0.05
"""Share of the jobs that are enqueued one by one."""
_SECONDS: Final = {"enqueue": 5.0, "bulk": 10.0, "drain": 20.0}
"""Seconds for each part at most, however slow the database is."""
_PICKUPS: Final = 100
_GAP: Final = 0.02
_LOOK: Final = 0.005
_PATIENCE: Final = 10.0
_SHARES: Final = (0.5, 0.95, 0.99)


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    register_sync(root, "bench", bench, _run)


def bench(
    context: CommandContext,
    jobs: Annotated[int, typer.Option(min=100, help="Number of jobs to enqueue in bulk and drain.")] = 20_000,
    slots: Annotated[int, typer.Option(min=1, help="Jobs at once.")] = 100,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Measure enqueueing, draining and latency on your database, in a separate schema that is removed afterwards."""


@dataclass(frozen=True, slots=True)
class MeasuredPart:
    """One measured rate."""

    jobs: int
    seconds: float

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return self.jobs / max(self.seconds, 1e-9)


@dataclass(frozen=True, slots=True)
class Measured:
    """All results. latency: milliseconds from the commit to the handler's start, at p50, p95 and p99."""

    enqueue: MeasuredPart
    bulk: MeasuredPart
    drain: MeasuredPart
    latency: tuple[float, ...]


def _run(context: CommandContext, options: dict[str, Any]) -> None:
    logging.getLogger("rowlock").setLevel(logging.ERROR)
    settings = context.app.settings
    name = f"{(context.schema or 'rowlock')[:30]}_bench_{uuid.uuid4().hex[:8]}"
    with _server(settings) as url:
        if settings.database_url is not None and not options["yes"]:
            jobs = f"{options['jobs']:,} no-op jobs"
            _ask(f"{jobs} go into a new schema {name} of {shown(url)}, which is removed afterwards.")
        lanes = (Lane("default", kinds=("*",), slots=options["slots"]),)
        measured = _measured(replace(settings, database_url=url, schema=name, lanes=lanes), options["jobs"])
    _show(context, measured, url, options["slots"])


@contextlib.contextmanager
def _server(settings: Settings) -> Iterator[str]:
    if settings.database_url is not None:
        yield settings.database_url
        return
    with embedded.start(Path(settings.data_dir)) as held:
        yield held.url


def _ask(text: str) -> None:
    if not sys.stdin.isatty():
        raise InvalidOption(f"{text} There is no terminal to ask: add --yes.")
    typer.confirm(f"{text} Go on?", abort=True, err=True)


def _measured(settings: Settings, jobs: int) -> Measured:
    async def measure() -> Measured:
        # Cancel the task as asyncio.run() does for SIGINT: the schema has to be removed on SIGTERM, too.
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        return await _within(settings, jobs)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(measure())


async def _within(settings: Settings, jobs: int) -> Measured:
    url = str(settings.database_url)
    try:
        await migrate.upgrade(url, settings.schema)
        async with Rowlock(settings=settings) as app:
            return await Bench(app).measure(jobs)
    finally:
        await migrate.downgrade(url, settings.schema, to=0)


class Bench:
    """The measurements, on tables of their own."""

    def __init__(self, app: Rowlock) -> None:
        self._app = app
        self._starts: dict[int, float] = {}
        self._count, self._first = 0, 0.0

        @app.job("bench.noop")
        async def noop(number: int) -> None:
            now = time.perf_counter()
            self._count += 1
            self._first = self._first or now
            if number >= 0:
                self._starts[number] = now

        self._noop: Task[..., None] = noop

    async def measure(self, jobs: int) -> Measured:
        """Run the parts in order: the drain runs the jobs enqueued before it."""
        enqueue = await self._enqueue(max(1, int(jobs * _SINGLES)))
        bulk = await self._bulk(jobs)
        async with self._app.worker(name="bench"):
            drain = await self._drain(enqueue.jobs + bulk.jobs + 1)
            latency = await self._latency()
        return Measured(enqueue, bulk, drain, latency)

    async def _enqueue(self, jobs: int) -> MeasuredPart:
        await self._noop.enqueue(number=-1)  # the first one connects
        began, done, spent = time.perf_counter(), 0, 0.0
        while done < jobs and spent < _SECONDS["enqueue"]:
            await self._noop.enqueue(number=-1)
            done, spent = done + 1, time.perf_counter() - began
        return MeasuredPart(done, spent)

    async def _bulk(self, jobs: int) -> MeasuredPart:
        began, done, spent = time.perf_counter(), 0, 0.0
        while done < jobs and spent < _SECONDS["bulk"]:
            size = min(_BATCH, jobs - done)
            await self._noop.enqueue_many([{"number": -1}] * size)
            done, spent = done + size, time.perf_counter() - began
        return MeasuredPart(done, spent)

    async def _drain(self, jobs: int) -> MeasuredPart:
        """Time from the start of the first handler to the last end in the table."""
        deadline = time.perf_counter() + _SECONDS["drain"]
        while time.perf_counter() < deadline:
            left = [State.QUEUED, State.RUNNING]
            if self._count >= jobs and not await self._app.jobs.list(states=left, limit=1):
                break
            await asyncio.sleep(_LOOK)
        return MeasuredPart(self._count, time.perf_counter() - self._first)

    async def _latency(self) -> tuple[float, ...]:
        committed = []
        for number in range(_PICKUPS):
            await self._noop.enqueue(number=number)
            committed.append(time.perf_counter())
            await asyncio.sleep(_GAP)
        deadline = time.perf_counter() + _PATIENCE
        while len(self._starts) < _PICKUPS and time.perf_counter() < deadline:  # noqa: ASYNC110 - nothing is measured here
            await asyncio.sleep(_LOOK)
        late = time.perf_counter()
        return _percentiles([self._starts.get(n, late) - at for n, at in enumerate(committed)])


def _percentiles(spans: Sequence[float]) -> tuple[float, ...]:
    # A handler may start before the producer has the answer to its commit.
    ordered = sorted(max(0.0, span) * 1e3 for span in spans)
    return tuple(ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in _SHARES)


def _show(context: CommandContext, measured: Measured, url: str, slots: int) -> None:
    named = {"enqueue one by one": measured.enqueue, "enqueue in bulk": measured.bulk, "drain": measured.drain}
    rows = [
        [name, f"{part.rate:,.0f} jobs/s", f"{part.jobs:,} in {part.seconds:.2f} s"] for name, part in named.items()
    ]
    p50, p95, p99 = measured.latency
    rows.append(["pick-up from commit", f"{p50:.2f} ms", f"p95 {p95:.2f} ms, p99 {p99:.2f} ms"])
    record = {
        "database": shown(url),
        "slots": slots,
        **{
            key: {"jobs": part.jobs, "seconds": part.seconds, "per_second": part.rate} for key, part in _parts(measured)
        },
        "pickup_ms": {"p50": p50, "p95": p95, "p99": p99},
    }
    context.screen.table(("what", "figure", "measured"), rows, record, "")


def _parts(measured: Measured) -> list[tuple[str, MeasuredPart]]:
    return [("enqueue", measured.enqueue), ("bulk", measured.bulk), ("drain", measured.drain)]
