"""A watched job in words: its change, progress, pace and outcome."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.cli.screen.output import distance, moment, span
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.desk.follow.watch import WatchedJob
    from rowlock.model.progress import ItemCounts, Phase

_MINUTE: Final = 60
_HOUR: Final = 3600
_SLOW: Final = 0.1
_FEW: Final = 10


def moved(before: WatchedJob | None, now: WatchedJob) -> str:
    """The change between two polls, in one line."""
    state = now.state.value if before is None or before.state is now.state else f"{before.state} → {now.state}"
    items = now.progress.items if now.progress is not None else None
    counts = f"({items_text(items)})" if items is not None and now.state is State.RUNNING else ""
    return " ".join(part for part in (state, detail(now), counts, pace(now)) if part)


def detail(one: WatchedJob) -> str:
    """Phase and counter of a running job, the reason why a waiting one waits, or the outcome of a final one."""
    if one.state is State.RUNNING:
        asked = "cancel requested" if one.cancel_requested else ""
        attempt = f"attempt {one.attempt} of {one.max_attempts}" if one.progress is None or one.attempt > 1 else ""
        return ", ".join(part for part in (attempt, asked, counter(one)) if part)
    if one.is_final:
        took = one.finished_at - one.claimed_at if one.finished_at and one.claimed_at else None
        after = f"after {span(_rounded(took))}" if took is not None else ""
        return ": ".join(part for part in (after, reason(one)) if part)
    if one.state is State.QUEUED:
        due = one.run_after - one.seen_at
        again = f", attempt {one.attempt + 1} of {one.max_attempts}" if one.attempt else ""
        return (f"due {distance(due)}" if due > timedelta(seconds=1) else "due") + again
    return "awaits approval" if one.state is State.PENDING else "awaits its gate or other jobs"


def counter(one: WatchedJob) -> str:
    """Phase, counter, percentage and message."""
    progress = one.progress
    if progress is None:
        return ""
    count = f"{progress.done:g}" + (f"/{progress.total:g}" if progress.total is not None else "")
    share = f"{progress.fraction:.0%}" if progress.fraction is not None else ""
    return " ".join(part for part in (progress.phase, count, share, progress.message) if part)


def pace(one: WatchedJob) -> str:
    """Rate and time left; empty while unknown."""
    if one.rate is None or one.state is not State.RUNNING:
        return ""
    return rate_text(one.rate) + (f", {left_text(one.eta)} left" if one.eta is not None else "")


def rate_text(rate: float) -> str:
    """Per second, or per minute where that reads better."""
    if rate < _SLOW:
        return f"{rate * _MINUTE:.1f}/min"
    return f"{rate:.1f}/s" if rate < _FEW else f"{rate:.0f}/s"


def left_text(left: timedelta) -> str:
    """A duration as an estimate: `45 s`, `3 min`, `2 h 05 min`."""
    seconds = round(left.total_seconds())
    if seconds < 2 * _MINUTE:
        return f"{seconds} s"
    if seconds < 2 * _HOUR:
        return f"{round(seconds / _MINUTE)} min"
    hours, rest = divmod(seconds, _HOUR)
    return f"{hours} h {rest // _MINUTE:02d} min"


def items_text(items: ItemCounts) -> str:
    """Items by state; states without items are left out."""
    total = f" of {items.total}" if items.total is not None else ""
    parts = [f"{items.completed}{total} items completed"]
    for count, word in ((items.in_progress, "in progress"), (items.skipped, "skipped"), (items.failed, "failed")):
        parts += [f"{count} {word}"] if count else []
    return ", ".join(parts)


def phase_rows(phases: Sequence[Phase]) -> list[list[str]]:
    """Phases as rows: name, counter, when it began, how long it took."""
    return [
        [
            phase.name,
            _count(phase.done, phase.total),
            moment(phase.started_at),
            f"took {span(_rounded(phase.ended_at - phase.started_at))}"
            if phase.ended_at is not None and phase.started_at is not None
            else "",
        ]
        for phase in phases
    ]


def reason(one: WatchedJob) -> str:
    """Why it ended as it did."""
    parts = (str(one.error[key]) for key in ("reason", "type", "message") if one.error.get(key))
    return ": ".join(part for part in parts if part != one.state)


def _count(done: float, total: float | None) -> str:
    if total is None:
        return f"{done:g}" if done else ""
    return f"{done:g}/{total:g}"


def _rounded(took: timedelta) -> timedelta:
    digits = 1 if took < timedelta(minutes=1) else 0
    return timedelta(seconds=round(took.total_seconds(), digits)) if took > timedelta(seconds=1) else took
