"""Worker verbs: a worker's row from its start to its end, the beat in between, and claims that it gives up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from rowlock.store.batch_halving import in_halves

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowlock.store.executor import SqlExecutor


class WorkerRow(TypedDict):
    """What a worker writes about itself. lanes None: every lane; slots: JSON by lane; supervisor: its process id.

    carriers: JSON, the carriers by kind and by lane; None: PostgreSQL delivers every job.
    """

    name: str
    host: str
    pid: int
    version: str | None
    lanes: list[str] | None
    kinds: list[str]
    slots: str | None
    supervisor: int | None
    carriers: str | None


class Namesake(NamedTuple):
    """A live worker of the same name."""

    host: str
    pid: int
    since: str


class Registered(NamedTuple):
    """The id of a new worker, and the database's clock."""

    id: int
    now: datetime
    namesake: Namesake | None


class BeatAnswer(NamedTuple):
    """All that a worker learns from one beat."""

    now: datetime
    known: bool
    """False: the worker's row was deleted."""
    drain: bool
    """An operator wants the worker to drain and stop."""
    lanes_version: int
    sweep_epoch: int
    schema_since: int
    """The oldest migration whose code still works on the tables."""
    schedule_in: float | None
    """Seconds until the next schedule is due."""
    cancelled: Sequence[int]
    """Running jobs of this worker whose cancellation was asked for."""
    lost: Sequence[int]
    """Jobs among those named whose claim is not this worker's any more."""
    due: Sequence[str]
    """Duties that some worker should do now."""
    spent: float
    """Milliseconds the server took."""


async def register(executor: SqlExecutor, worker: WorkerRow) -> Registered:
    """Add the row of a worker that starts."""
    (row,) = await executor.fetch("register_worker", **worker)
    namesake = Namesake(**json.loads(row["namesake"])) if row["namesake"] else None
    return Registered(row["id"], row["now"], namesake)


async def revive(executor: SqlExecutor, worker_id: int, worker: WorkerRow) -> None:
    """Add the row again, under the id it had."""
    await executor.fetch("revive_worker", worker=worker_id, **worker)


async def leave(executor: SqlExecutor, worker_id: int) -> None:
    """Mark the worker as gone."""
    await executor.fetch("worker_gone", worker=worker_id)


async def vouch(executor: SqlExecutor, worker_ids: list[int]) -> None:
    """Keep the rows of these workers fresh: their supervisor sees that their processes live.

    Raises the error of a row that was refused after the others are written.
    """
    refused: list[Exception] = []
    await in_halves(
        worker_ids,
        lambda some: executor.fetch("vouch", workers=some),
        refused=lambda _worker, error: refused.append(error),
    )
    if refused:
        raise refused[0]


async def beat(
    executor: SqlExecutor,
    *,
    worker: int,
    hungry: bool,
    draining: bool,
    stuck: int,
    set_aside: str | None,
    held: str | None,
    memory: int | None,
    ids: list[int],
    fences: list[int],
    look: bool,
) -> BeatAnswer:
    """Say that the worker lives and holds these claims. look: also check whether duties that cost reads are due.

    held: slots of handlers that go on without a claim, as JSON for the column of that name; memory: bytes.
    """
    (row,) = await executor.fetch(
        "beat",
        worker=worker,
        hungry=hungry,
        state="draining" if draining else "up",
        stuck=stuck,
        set_aside=set_aside,
        held=held,
        memory=memory,
        ids=ids,
        fences=fences,
        look=look,
    )
    return BeatAnswer(
        now=row["now"],
        known=row["known"],
        drain=row["told"] == "drain",
        lanes_version=row["lanes_version"],
        sweep_epoch=row["sweep_epoch"] or 0,
        schema_since=row["schema_since"],
        schedule_in=row["schedule_in"],
        cancelled=row["cancelled"],
        lost=row["lost"],
        due=row["due"],
        spent=row["spent"],
    )


async def disown(
    executor: SqlExecutor,
    *,
    worker: int,
    held: list[int],
    before: datetime,
    channel: str,
    only: list[int] | None = None,
) -> Sequence[int]:
    """Give back jobs that this worker claimed before that moment and does not hold; returns their ids.

    only: of these jobs, after a call for all of them has failed.
    """
    (row,) = await executor.fetch("disown", worker=worker, held=held, before=before, channel=channel, only=only)
    ids: list[int] = row["ids"]
    return ids


async def claimed_by(executor: SqlExecutor, worker: int) -> list[int]:
    """The running jobs that the table says this worker has, 500 at most."""
    return [row["id"] for row in await executor.fetch("claimed_by", worker=worker)]


async def unblock(
    executor: SqlExecutor,
    *,
    worker: int,
    ids: list[int],
    fences: list[int],
    place: str,
    max_losses: int,
    channel: str,
) -> Sequence[int]:
    """End a worker whose loop is blocked at `place` by these claims, and give all its jobs back; returns their ids."""
    (row,) = await executor.fetch(
        "unblock", worker=worker, ids=ids, fences=fences, place=place, max_losses=max_losses, channel=channel
    )
    given: list[int] = row["ids"]
    return given
