"""Duties that move many jobs at once: those behind a gate, a step, a signal, a lost claim or a long wait."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tests.races.bad_rows import JOBS, Step
from tests.workflow_factory import Flow, S
from typing_extensions import override

from rowlock.flow.worker.heartbeat import BeatReport, Heartbeat
from rowlock.store.connections.worker_connection import WorkerConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.upkeep.duty_running import Desk


class _Moved:
    """A duty after which the jobs are in another state."""

    duty = ""
    after = ""

    def __init__(self) -> None:
        self.jobs: list[int] = []

    async def start(self, desk: Desk) -> None:
        await self.again(desk)

    async def again(self, desk: Desk) -> None:
        desk.hurry()
        await desk.run(self.duty)

    async def done(self, desk: Desk) -> set[int]:
        found = "SELECT array_agg(id) FROM {s}.jobs WHERE state = $1 AND id = ANY ($2)"
        return set(await desk.store.value(found, self.after, self.jobs) or ())

    async def end(self) -> None:
        pass


class _Overdue(_Moved):
    """Waits for a signal that are over."""

    duty, after = "signals", "queued"

    async def prepare(self, desk: Desk) -> list[int]:
        worker = await desk.store.worker()
        self.jobs = [await desk.store.enqueue() for _ in range(JOBS)]
        for claim in await desk.store.claim(worker, *self.jobs):
            await desk.store.suspend(claim, "approved", 0.0)
        return self.jobs


class _Parked(_Moved):
    """Jobs parked at gates of their own, whose places are free."""

    duty, after = "gates", "queued"

    async def prepare(self, desk: Desk) -> list[int]:
        self.jobs = [await desk.store.enqueue(gate_key=f"g{n}") for n in range(JOBS)]
        for n in range(JOBS):
            await desk.store.gate(f"g{n}")
        await desk.store.execute("UPDATE {s}.jobs SET state = 'blocked', gate_place = -1")
        return self.jobs


class _Idle(_Moved):
    """Jobs that have a place and are claimed by no worker, beside one that is parked, each at a gate of its own."""

    duty, after = "gates", "blocked"

    async def prepare(self, desk: Desk) -> list[int]:
        self.jobs = [await desk.store.enqueue(gate_key=f"g{n}") for n in range(JOBS)]
        for n in range(JOBS):
            await desk.store.gate(f"g{n}")
            await desk.store.enqueue(gate_key=f"g{n}", priority=50)
        await desk.store.execute(
            "UPDATE {s}.jobs SET gate_place = 1, run_after = now() - interval '1 hour' WHERE id = ANY ($1)", self.jobs
        )
        await desk.store.execute(
            "UPDATE {s}.jobs SET state = 'blocked', gate_place = -1 WHERE NOT id = ANY ($1)", self.jobs
        )
        return self.jobs


class _Behind(_Moved):
    """Steps behind one whose end released none of them."""

    duty = "workflows"

    def __init__(self, ends: str, after: str) -> None:
        super().__init__()
        self.ends, self.after = ends, after

    async def prepare(self, desk: Desk) -> list[int]:
        flow = await Flow.of(desk.store, [("a", f"b{n}", S) for n in range(JOBS)])
        await desk.store.execute(
            "UPDATE {s}.jobs SET state = $2, finished_at = now() WHERE id = $1", flow.jobs["a"], self.ends
        )
        self.jobs = sorted(number for name, number in flow.jobs.items() if name != "a")
        return self.jobs


class _Halted(_Moved):
    """The steps of a cancelled workflow whose canceller is gone."""

    duty, after = "workflows", "cancelled"

    async def prepare(self, desk: Desk) -> list[int]:
        steps: dict[str, dict[str, Any]] = {f"s{n}": {} for n in range(JOBS)}
        flow = await Flow.of(desk.store, [], **steps)
        await desk.store.one("workflow_cancel", workflow=flow.number)
        self.jobs = sorted(flow.jobs.values())
        return self.jobs


class _PrunedWorkflows(_Moved):
    """Workflows past their retention."""

    duty = "prune"

    async def prepare(self, desk: Desk) -> list[int]:
        for _ in range(JOBS):
            flow = await Flow.of(desk.store, [], only={})
            await flow.end("only")
            self.jobs.append(flow.jobs["only"])
        for table in ("jobs", "workflows"):
            await desk.store.execute(f"UPDATE {{s}}.{table} SET finished_at = now() - interval '1 year'")
        return self.jobs

    @override
    async def done(self, desk: Desk) -> set[int]:
        return set(self.jobs) - set(await desk.store.value("SELECT array_agg(id) FROM {s}.jobs") or ())


class _Aged(_Moved):
    """Jobs that have waited for long."""

    duty = "ageing"

    async def prepare(self, desk: Desk) -> list[int]:
        await desk.store.lane("default", kinds=["*"])
        await desk.store.execute("UPDATE {s}.lanes SET age_every = interval '1 hour'")
        self.jobs = [await desk.store.enqueue() for _ in range(JOBS)]
        await desk.store.execute("UPDATE {s}.jobs SET run_after = now() - interval '90 minutes'")
        await desk.store.fetch("register_pairs", kinds=["k"], priorities=[0], shares=[0])
        await desk.store.execute("UPDATE {s}.pairs SET low_water = '-infinity'")
        return self.jobs

    @override
    async def done(self, desk: Desk) -> set[int]:
        return set(await desk.store.value("SELECT array_agg(id) FROM {s}.jobs WHERE priority > 0") or ())


class _Disowned(_Moved):
    """Claims of a worker that does not know of them; its beat gives them back."""

    after = "queued"

    async def prepare(self, desk: Desk) -> list[int]:
        worker = await desk.store.worker()
        self.jobs = [await desk.store.enqueue() for _ in range(JOBS)]
        await desk.store.claim(worker, *self.jobs)
        self.link = WorkerConnection(desk.store.database, "beat")
        self.beat = Heartbeat(
            desk.store.database,
            worker,
            report=lambda: BeatReport(hungry=True, draining=False, claims=(), known_jobs=()),
            on_beat=lambda _: None,
            watchdog=None,  # type: ignore[arg-type]  # never asked
        )
        return self.jobs

    @override
    async def again(self, desk: Desk) -> None:
        await self.beat._beat(self.link, timedelta(0), disown=True)

    @override
    async def end(self) -> None:
        await self.link.close()


UPKEEP_STEPS: Final[dict[str, Callable[[], Step]]] = {
    "signals": _Overdue,
    "promoted": _Parked,
    "parked again": _Idle,
    "released behind": lambda: _Behind("completed", "queued"),
    "cancelled behind": lambda: _Behind("failed", "cancelled"),
    "halted": _Halted,
    "prune workflows": _PrunedWorkflows,
    "age": _Aged,
    "disowned": _Disowned,
}
