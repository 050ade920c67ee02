"""rowlock demo: see Rowlock work on a real PostgreSQL, in about ten seconds and without set-up."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.util
import logging
import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from rowlock.app import Rowlock
from rowlock.cli.command import register_sync
from rowlock.cli.context import CommandContext
from rowlock.cli.exit_codes import Exit
from rowlock.cli.process import free_port
from rowlock.cli.process.demo import linger, sample_jobs
from rowlock.cli.screen import records
from rowlock.cli.screen.demo_display import demo_display
from rowlock.cli.screen.output import span
from rowlock.errors import MissingExtra, WrongState
from rowlock.model.database_url import shown
from rowlock.model.lane import Lane
from rowlock.model.state import State
from rowlock.model.times.duration import duration, humanise
from rowlock.settings import Settings
from rowlock.store import embedded
from rowlock.store.embedded import keeper
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine, Iterator, Sequence
    from datetime import timedelta

    from rowlock.cli.process.demo.sample_jobs import DemoJob
    from rowlock.cli.screen.demo_display import DemoDisplay
    from rowlock.model.job import Job

T = TypeVar("T")
SCHEMA: Final = "rowlock_demo"
"""Schema of the demo on a database that --database-url names."""
_LOOK_EVERY: Final = 0.08
_PATIENCE: Final = 60.0
"""Seconds after which the demo ends although jobs are not final."""
_APPROVED_AFTER: Final = 1.0


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    register_sync(root, "demo", demo, _run)


def demo(  # noqa: PLR0917 - the options of the command
    context: CommandContext,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the database afterwards.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the embedded PostgreSQL; default: a temporary one.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Then show them in the dashboard, with more jobs coming, until Ctrl-C.")
    ] = False,
    linger: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Then leave the dashboard running in the background, such as for 10m."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Port of the dashboard; default: the first free one from 8000 on."),
    ] = None,
) -> None:
    """Run sample jobs on an embedded PostgreSQL (or on --database-url) and watch them."""


@dataclass(frozen=True, slots=True)
class DemoDatabase:
    """The database of the demo."""

    url: str
    schema: str
    hint: str
    """How to look at the jobs afterwards."""


def _run(context: CommandContext, options: dict[str, Any]) -> None:
    # SIGTERM ends the demo like Ctrl-C, so that the temporary folder is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("rowlock").setLevel(logging.ERROR)
    logging.getLogger("rowlock.job").setLevel(logging.CRITICAL)  # some samples fail on purpose, as the screen shows
    say = (lambda _: None) if context.screen.as_json else context.screen.line
    lasting = None if options["linger"] is None else duration(options["linger"], "--linger")
    if lasting is not None and not linger.must_stay():
        code = linger.run_and_leave()
        if code:
            raise typer.Exit(code)
        return
    # Before the jobs: a port that is taken, or a missing package, is said at once.
    listening = _listening(options["port"]) if options["serve"] or lasting is not None else None
    with _demo_database(context, options["data_dir"], keep=options["keep"]) as target:
        say(f"PostgreSQL: {shown(target.url)}, schema {target.schema}")
        _judge(context, *_until_stopped(lambda: _play(target, context)))
        if listening is not None:
            _serve(target, listening, context, lasting)
        elif not context.screen.as_json:
            say("See them in the dashboard: rowlock demo --serve")
    if options["keep"]:
        say(f"Look at them with: {target.hint}")


def _judge(context: CommandContext, jobs: Sequence[Job], samples: Sequence[DemoJob]) -> None:
    """Print the jobs; exit with an error if one of them ended otherwise than it should."""
    wrong = [(job, sample) for job, sample in zip(jobs, samples, strict=True) if job.state is not sample.ends]
    _summary(context, jobs)
    for job, sample in wrong:
        context.screen.note(f"{job.kind} {job.public_id} is {job.state}; expected {sample.ends}.")
    if wrong:
        raise typer.Exit(Exit.FAILED)
    if not context.screen.as_json:
        context.screen.line(f"All {len(jobs)} jobs ended as they should.")


def _listening(port: int | None) -> socket.socket:
    for name in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(name, "server")
    return free_port.listening(port)


def _serve(target: DemoDatabase, listening: socket.socket, context: CommandContext, lasting: timedelta | None) -> None:
    """Serve until Ctrl-C; with `lasting` in the background, and no longer than that."""
    from rowlock.cli.process.demo.server import serve_demo

    def announce(link: str) -> None:
        if lasting is None:
            context.screen.note(f"the dashboard, until Ctrl-C: {link}")
            return
        context.screen.note(f"the dashboard, for {humanise(lasting)} or until `kill {os.getpid()}`: {link}")
        linger.hand_over()

    async def serve() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if lasting is None else lasting.total_seconds()):
                await serve_demo(target.url, target.schema, listening, announce)

    with contextlib.suppress(KeyboardInterrupt):
        _until_stopped(serve)


def _until_stopped(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine; SIGTERM and SIGINT end it with KeyboardInterrupt."""

    async def run() -> T:
        # Cancel the task as asyncio.run() does for SIGINT: an exception raised anywhere may hit a driver in the middle.
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        return await work()

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextlib.contextmanager
def _demo_database(context: CommandContext, data_dir: Path | None, *, keep: bool) -> Iterator[DemoDatabase]:
    # ROWLOCK_DATABASE_URL is ignored: it may be production, which must not get sample jobs by accident.
    if context.database_url is not None:
        schema = context.schema or SCHEMA
        made = asyncio.run(migrate.upgrade(context.database_url, schema))
        try:
            yield DemoDatabase(context.database_url, schema, f"rowlock jobs ls --database-url … --schema {schema}")
        finally:
            if 1 in made and not keep:
                asyncio.run(migrate.downgrade(context.database_url, schema, to=0))
        return
    folder = data_dir or Path(tempfile.mkdtemp(prefix="rowlock-demo-"))
    temporary = data_dir is None and not keep
    try:
        # A temporary database need not survive a power cut.
        held = embedded.start(folder, settings={"fsync": "off"} if temporary else {})
        schema = context.schema or "rowlock"
        try:
            yield DemoDatabase(held.url, schema, f"ROWLOCK_DATA_DIR={held.directory} rowlock jobs ls")
        finally:
            held.close()
            if temporary:
                os.close(keeper.lock(held.directory / "keeper.lock", fcntl.LOCK_EX))  # waits for the server's end
                shutil.rmtree(held.directory, ignore_errors=True)
    finally:
        if temporary:
            shutil.rmtree(folder, ignore_errors=True)


async def _play(target: DemoDatabase, context: CommandContext) -> tuple[list[Job], list[DemoJob]]:
    await migrate.upgrade(target.url, target.schema)
    version = Settings.from_env(os.environ).app_version
    lanes = (Lane(sample_jobs.LANE, slots=8),)
    settings = Settings(database_url=target.url, schema=target.schema, lanes=lanes, app_version=version)
    async with Rowlock(settings=settings) as app:
        samples = sample_jobs.samples(app)
        worker = app.make_worker(name="demo")
        with demo_display(as_json=context.screen.as_json) as view:
            began = time.monotonic()
            numbers = [(await sample.enqueue()).id for sample in samples]
            await worker.start()
            try:
                jobs = await _watch(app, samples, numbers, view, began)
            finally:
                await worker.stop(after=0)
    # A duplicate has the id of the job that it duplicates.
    first = {number: n for n, number in reversed(list(enumerate(numbers)))}
    once = sorted(first.values())
    by_id = {job.id: job for job in jobs}
    return [by_id[numbers[n]] for n in once], [samples[n] for n in once]


async def _watch(
    app: Rowlock, samples: Sequence[DemoJob], numbers: Sequence[int], view: DemoDisplay, began: float
) -> list[Job]:
    """Show the jobs until all are final; cancel and approve some on the way."""
    shows: dict[int, str] = {}
    for number, sample in zip(numbers, samples, strict=True):
        shows[number] = f"{shows[number]}; {sample.shows}" if number in shows else sample.shows
    orders = {number: sample.order for number, sample in zip(numbers, samples, strict=True) if sample.order is not None}
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
            await app.jobs.cancel(job.id, by="demo", note="not needed any more")
        elif order == "approve" and job.state is State.PENDING and seconds > _APPROVED_AFTER:
            del orders[job.id]
            await app.jobs.approve(job.id, by="demo")


def _summary(context: CommandContext, jobs: Sequence[Job]) -> None:
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
    context.screen.table(
        ("kind", "state", "attempts", "waited", "ran"), rows, [records.job(job) for job in jobs], "No jobs."
    )
