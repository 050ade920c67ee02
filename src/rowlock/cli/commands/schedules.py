"""rowlock schedules: read and change schedules while workers run."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, cast
from zoneinfo import ZoneInfo

import typer

from rowlock.cli import completion
from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.option_values import day_or_instant, named_arguments
from rowlock.cli.screen import records
from rowlock.cli.screen.output import compact, moment
from rowlock.errors import InvalidOption
from rowlock.model import ids
from rowlock.model.times.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.schedule import Missed, Overlap, Schedule
    from rowlock.model.times.window import Then

group = typer.Typer(no_args_is_help=True, help="Read and change schedules while workers run.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.", autocompletion=completion.schedules)]
CronText = Annotated[
    str | None,
    typer.Option(
        metavar="'M H D M W'", help="Cron rule of five fields, such as '0 2 * * *', in the schedule's time zone."
    ),
]
EveryText = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Interval instead of a cron rule, such as 15m.")
]
ZoneText = Annotated[str | None, typer.Option("--tz", metavar="ZONE", help="Time zone, such as Europe/London.")]
MissedText = Annotated[
    str | None,
    typer.Option(
        metavar="none|latest|all",
        help="Which missed slots are fired later.",
        autocompletion=completion.one_of("none", "latest", "all"),
    ),
]
MostMissed = Annotated[
    int | None, typer.Option("--most-missed", metavar="N", help="With --missed all: at most the latest N missed slots.")
]
OverlapText = Annotated[
    str | None,
    typer.Option(
        metavar="queue|skip|cancel",
        help="What to do while the previous run has not ended.",
        autocompletion=completion.one_of("queue", "skip", "cancel"),
    ),
]
WindowTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--window",
        metavar="'HH:MM-HH:MM [DAYS] [skip|defer]'",
        help="Hours in which it does not fire, such as '22:00-06:00 sat,sun defer'; may be repeated.",
    ),
]
ArgsText = Annotated[str | None, typer.Option(metavar="JSON", help="Arguments of its jobs, as an object.")]
_COLUMNS: Final = ("schedule", "kind", "when", "zone", "next", "last", "job", "state", "left out")
_SPARE: Final = ("left out", "job", "zone", "kind")


@command(group, "ls")
async def ls(context: CommandContext) -> None:
    """List schedules with their next and last run."""
    _show(
        context,
        await context.desk.schedules.list(),
        "No schedules: rowlock schedules add, or @app.schedule in your code.",
    )


@command(group, "show")
async def show(context: CommandContext, name: Name) -> None:
    """Show one schedule and its next five runs, in its time zone and in UTC."""
    schedule = await context.desk.schedules.get(name)
    runs = await context.desk.schedules.next(name)
    if context.screen.as_json:
        context.screen.json({**records.schedule(schedule), "next_runs": runs})
        return
    for label, text in _facts(schedule):
        context.screen.line(f"{label:<9} {text}")
    for n, run in enumerate(runs):
        context.screen.line(f"{'' if n else 'next':<9} {_both(run, schedule.tz)}")


@command(group, "next")
async def next_runs(
    context: CommandContext,
    name: Name,
    *,
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="Number of runs.")] = 5,
) -> None:
    """Print the next runs, in the schedule's time zone and in UTC."""
    schedule = await context.desk.schedules.get(name)
    runs = await context.desk.schedules.next(name, n)
    zones = list(dict.fromkeys((schedule.tz, "UTC")))
    rows = [[_local(run, schedule.tz), _utc(run)][: len(zones)] for run in runs]
    context.screen.table(zones, rows, runs, "It is never due.")


@command(group, "add")
async def add(
    context: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")],
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Kind of its jobs.", autocompletion=completion.kinds)],
    *,
    cron: CronText = None,
    every: EveryText = None,
    tz: ZoneText = None,
    args: ArgsText = None,
    missed: MissedText = None,
    most_missed: MostMissed = None,
    overlap: OverlapText = None,
    window: WindowTexts = None,
    priority: Annotated[int | None, typer.Option(help="Priority of its jobs, from -100 to 100.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Tenant of its jobs.")] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
) -> None:
    """Create a schedule; it is first due at its next slot."""
    made = await context.desk.schedules.create(
        name,
        kind,
        cron,
        every=every,
        tz=tz or "UTC",
        args=named_arguments(args) or {},
        missed=cast("Missed", missed or "latest"),  # checked by the desk, like overlap
        most_missed=100 if most_missed is None else most_missed,
        overlap=cast("Overlap", overlap or "queue"),
        windows=_windows(window) or (),
        options={} if priority is None else {"priority": priority},
        tenant=tenant,
        enabled=not paused,
    )
    _show(context, [made], "")


@command(group, "edit")
async def edit(
    context: CommandContext,
    name: Name,
    *,
    cron: CronText = None,
    every: EveryText = None,
    tz: ZoneText = None,
    args: ArgsText = None,
    missed: MissedText = None,
    most_missed: MostMissed = None,
    overlap: OverlapText = None,
    window: WindowTexts = None,
    no_windows: Annotated[bool, typer.Option("--no-windows", help="Remove its windows.")] = False,
    version: Annotated[int | None, typer.Option(help="Change only if it still has this version.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="First reset it to what code declares.")] = False,
) -> None:
    """Change the given fields of a schedule; the others stay."""
    desk, said = context.desk.schedules, (cron, every, tz, args, missed, most_missed, overlap, window)
    changes = no_windows or any(value is not None for value in said)
    if not reset and not changes:
        raise InvalidOption(
            "Nothing to change: add --cron, --every, --tz, --args, --missed, --overlap, --window or --reset."
        )
    changed = await desk.reset(name) if reset else None
    if changes or changed is None:
        changed = await desk.edit(
            name,
            cron=cron,
            every=every,
            tz=tz,
            args=named_arguments(args),
            missed=cast("Missed | None", missed),
            most_missed=most_missed,
            overlap=cast("Overlap | None", overlap),
            windows=() if no_windows else _windows(window),
            version=version,
        )
    _show(context, [changed], "")


@command(group, "pause")
async def pause(context: CommandContext, name: Name) -> None:
    """Fire no more slots; jobs already enqueued go on."""
    _show(context, [await context.desk.schedules.pause(name)], "")


@command(group, "resume")
async def resume(context: CommandContext, name: Name) -> None:
    """Fire again; slots missed meanwhile follow the `missed` rule."""
    _show(context, [await context.desk.schedules.resume(name)], "")


@command(group, "run")
async def run(context: CommandContext, name: Name) -> None:
    """Enqueue one job now; the slots stay as they are."""
    job = await context.desk.schedules.run(name)
    context.screen.answer(f"{job.public_id} created", records.job(job))


@command(group, "backfill")
async def backfill(
    context: CommandContext,
    name: Name,
    *,
    start: Annotated[str, typer.Option("--from", metavar="ISO", help="Start of the range, such as 2027-03-01.")],
    end: Annotated[str, typer.Option("--until", metavar="ISO", help="End of the range, exclusive.")],
    yes: Annotated[bool, typer.Option("--yes", help="Enqueue the jobs instead of listing the slots.")] = False,
) -> None:
    """List the slots of a range that have had no job; with --yes, enqueue a job for each."""
    schedule = await context.desk.schedules.get(name)
    done = await context.desk.schedules.backfill(
        name, day_or_instant(start, "--from"), day_or_instant(end, "--until"), dry_run=not yes
    )
    if context.screen.as_json:
        context.screen.json(records.backfill(done))
        return
    for slot in done.slots:
        context.screen.line(_both(slot, schedule.tz))
    had = f"; {len(done.already)} have had their job" if done.already else ""
    verb = f"{len(done.jobs)} enqueued" if yes else f"{len(done.slots)} would be enqueued"
    context.screen.line(f"{verb}{had}.{'' if yes or not done.slots else ' Repeat it with --yes.'}")


@command(group, "rm")
async def rm(context: CommandContext, name: Name) -> None:
    """Remove a schedule; its jobs stay. A worker whose code declares it creates it again at its start."""
    gone = await context.desk.schedules.delete(name)
    context.screen.answer(f"{gone.name} removed", records.schedule(gone))
    if gone.declared is not None:
        context.screen.note(
            f"{name} is declared in code: the next worker that starts with it writes it again. Or pause it."
        )


def _show(context: CommandContext, schedules: Sequence[Schedule], empty: str) -> None:
    rows = [
        [
            item.name,
            item.kind,
            item.when,
            item.tz,
            moment(item.next_at) if item.next_at and item.enabled else "",
            moment(item.last_at) if item.last_at else "",
            "" if item.last_job is None else ids.encode(item.last_job),
            "on" if item.enabled else "paused",
            f"{moment(item.skipped_at)} {item.skipped_why}" if item.skipped_at else "",
        ]
        for item in schedules
    ]
    context.screen.table(_COLUMNS, rows, [records.schedule(item) for item in schedules], empty, _SPARE)


def _facts(item: Schedule) -> list[tuple[str, str]]:
    windows = [f"{window.hours} {window.days or 'every day'} {window.then}" for window in item.windows]
    origin = "declared in code" if item.declared is not None else f"made by {item.submitted_by or 'the system'}"
    last = "" if item.last_job is None else ids.encode(item.last_job)
    facts = [
        ("schedule", f"{item.name}, {'on' if item.enabled else 'paused'}, {origin}, version {item.version}"),
        ("kind", f"{item.kind} {compact(item.args) if item.args else ''}".rstrip()),
        ("when", f"{item.when} {item.tz}"),
        ("missed", item.missed + (f", at most {item.most_missed}" if item.missed == "all" else "")),
        ("overlap", item.overlap),
        *(("window", text) for text in windows),
        ("last", f"{moment(item.last_at)} {last}" if item.last_at else ""),
        ("left out", f"{moment(item.skipped_at)}: {item.skipped_why}" if item.skipped_at else ""),
    ]
    return [(label, text) for label, text in facts if text]


def _both(run: datetime, tz: str) -> str:
    return _local(run, tz) if tz == "UTC" else f"{_local(run, tz)}  {_utc(run)}"


def _local(run: datetime, tz: str) -> str:
    return f"{run.astimezone(ZoneInfo(tz)):%a %Y-%m-%d %H:%M:%S %z}"


def _utc(run: datetime) -> str:
    return f"{run.astimezone(ZoneInfo('UTC')):%Y-%m-%dT%H:%M:%SZ}"


def _windows(texts: Sequence[str] | None) -> list[Window] | None:
    if not texts:
        return None
    found = []
    for text in texts:
        hours, *rest = text.split() or [""]
        then = rest.pop() if rest and rest[-1] in ("skip", "defer") else "skip"
        found.append(Window(hours, ",".join(rest), cast("Then", then)))
    return found
