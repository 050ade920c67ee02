"""rowlock demo: see Rowlock work on a real PostgreSQL, in about ten seconds and without set-up."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rowlock.app import Rowlock
from rowlock.cli.call import Call
from rowlock.cli.command import register_sync
from rowlock.cli.commands import demo_jobs
from rowlock.cli.exit_codes import Exit
from rowlock.cli.screen import records
from rowlock.cli.screen.board import board
from rowlock.cli.screen.output import complain, span
from rowlock.errors import WrongState
from rowlock.model.lane import Lane
from rowlock.model.state import State
from rowlock.settings import Settings
from rowlock.store import embedded, migrate
from rowlock.store.database import shown
from rowlock.store.embedded import keeper

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowlock.cli.commands.demo_jobs import Part
    from rowlock.cli.screen.board import Board
    from rowlock.model.job import Job

SCHEMA: Final = "rowlock_demo"
"""On a database that is somebody's own, the demo keeps to itself."""
_LOOK_EVERY: Final = 0.08
_PATIENCE: Final = 60.0
"""Seconds until the demo says that something is stuck."""
_APPROVED_AFTER: Final = 1.0


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    register_sync(root, "demo", demo, _run)


def demo(
    call: Call,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the database, to look at it afterwards.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Of the embedded PostgreSQL; default: a temporary one.")
    ] = None,
) -> None:
    """Run sample jobs on an embedded PostgreSQL (or on --database-url) and watch them."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the demo plays."""

    url: str
    schema: str
    hint: str
    """How to look at the jobs afterwards."""


def _run(call: Call, given: dict[str, Any]) -> None:
    # A temporary folder must not be left behind, whoever ends the demo.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("rowlock").setLevel(logging.ERROR)
    say = (lambda _: None) if call.screen.as_json else call.screen.line
    with _stage(call, given["data_dir"], keep=given["keep"]) as stage:
        say(f"PostgreSQL: {shown(stage.url)}, schema {stage.schema}")
        jobs, parts = _played(stage, call, keep=given["keep"])
    wrong = [(job, part) for job, part in zip(jobs, parts, strict=True) if job.state is not part.ends]
    _summary(call, jobs)
    for job, part in wrong:
        complain(f"{job.kind} {job.public_id} is {job.state}; expected {part.ends}.")
    if wrong:
        raise typer.Exit(Exit.FAILED)
    say(f"All {len(jobs)} jobs ended as they should.")
    if given["keep"]:
        say(f"Look at them with: {stage.hint}")


def _played(stage: Stage, call: Call, *, keep: bool) -> tuple[list[Job], list[Part]]:
    async def play() -> tuple[list[Job], list[Part]]:
        # As asyncio.run() does for SIGINT: an exception raised wherever the loop is may hit a driver in the middle.
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        return await _play(stage, call, keep=keep)

    try:
        return asyncio.run(play())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextlib.contextmanager
def _stage(call: Call, data_dir: Path | None, *, keep: bool) -> Iterator[Stage]:
    # Not from ROWLOCK_DATABASE_URL: nobody's production gets sample jobs without asking for them.
    if call.database_url is not None:
        schema = call.schema or SCHEMA
        yield Stage(call.database_url, schema, f"rowlock jobs ls --database-url … --schema {schema}")
        return
    folder = data_dir or Path(tempfile.mkdtemp(prefix="rowlock-demo-"))
    temporary = data_dir is None and not keep
    try:
        # What ends with the demo need not survive a power cut.
        held = embedded.start(folder, settings={"fsync": "off"} if temporary else {})
        schema = call.schema or "rowlock"
        try:
            yield Stage(held.url, schema, f"ROWLOCK_DATA_DIR={held.directory} rowlock jobs ls")
        finally:
            held.close()
            if temporary:
                os.close(keeper.lock(held.directory / "keeper.lock", fcntl.LOCK_EX))  # waits for the server's end
                shutil.rmtree(held.directory, ignore_errors=True)
    finally:
        if temporary:
            shutil.rmtree(folder, ignore_errors=True)


async def _play(stage: Stage, call: Call, *, keep: bool) -> tuple[list[Job], list[Part]]:
    made = await migrate.upgrade(stage.url, stage.schema)
    settings = Settings(database_url=stage.url, schema=stage.schema, lanes=(Lane(demo_jobs.LANE, slots=8),))
    async with Rowlock(settings=settings) as app:
        parts = demo_jobs.parts(app)
        worker = app.make_worker(name="demo")
        with board(as_json=call.screen.as_json) as view:
            began = time.monotonic()
            numbers = [(await part.enqueue()).id for part in parts]
            await worker.start()
            try:
                jobs = await _watch(app, parts, numbers, view, began)
            finally:
                await worker.stop(after=0)
    if call.database_url is not None and 1 in made and not keep:
        await migrate.downgrade(stage.url, stage.schema, to=0)
    # The duplicate is the job it duplicates.
    first = {number: n for n, number in reversed(list(enumerate(numbers)))}
    once = sorted(first.values())
    by_id = {job.id: job for job in jobs}
    return [by_id[numbers[n]] for n in once], [parts[n] for n in once]


async def _watch(app: Rowlock, parts: Sequence[Part], numbers: Sequence[int], view: Board, began: float) -> list[Job]:
    """Show the jobs until all are final, giving a person's orders on the way."""
    shows: dict[int, str] = {}
    for number, part in zip(numbers, parts, strict=True):
        shows[number] = f"{shows[number]}; {part.shows}" if number in shows else part.shows
    orders = {number: part.order for number, part in zip(numbers, parts, strict=True) if part.order is not None}
    while True:
        jobs = await app.jobs.many(shows)
        seconds = time.monotonic() - began
        view.update(jobs, [shows[job.id] for job in jobs], seconds)
        if all(job.is_final for job in jobs) or seconds > _PATIENCE:
            return jobs
        for job in jobs:
            await _give_order(app, orders, job, seconds)
        await asyncio.sleep(_LOOK_EVERY)


async def _give_order(app: Rowlock, orders: dict[int, str], job: Job, seconds: float) -> None:
    order = orders.get(job.id)
    with contextlib.suppress(WrongState):
        if order == "cancel" and job.state is State.RUNNING and seconds > _APPROVED_AFTER:
            del orders[job.id]
            await app.jobs.cancel(job.id, by="demo", note="nobody needs it any more")
        elif order == "approve" and job.state is State.PENDING and seconds > _APPROVED_AFTER:
            del orders[job.id]
            await app.jobs.approve(job.id, by="demo")


def _summary(call: Call, jobs: Sequence[Job]) -> None:
    rows = [
        [
            job.kind,
            job.state.value,
            str(job.attempt),
            span(job.claimed_at - job.created_at if job.claimed_at else None),
            span(job.finished_at - job.claimed_at if job.claimed_at and job.finished_at else None),
        ]
        for job in jobs
    ]
    call.screen.table(
        ("kind", "state", "attempts", "waited", "ran"), rows, [records.job(job) for job in jobs], "No jobs."
    )
