"""Instants, durations, numbers and errors in words, for explanations and the doctor."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from rowlock.model.times.duration import humanise

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_LONGEST = 200


def span_text(span: timedelta) -> str:
    """A duration, to the second from one second on and to the minute from one hour on."""
    if span < timedelta(seconds=1):
        return humanise(timedelta(milliseconds=max(0, round(span.total_seconds() * 1000))))
    step = timedelta(minutes=1) if span >= timedelta(hours=1) else timedelta(seconds=1)
    return humanise(round(span / step) * step)


def ago(moment: datetime, now: datetime) -> str:
    """The time since an instant, such as `3 min ago`."""
    return f"{span_text(max(now - moment, timedelta(0)))} ago"


def when(moment: datetime, now: datetime) -> str:
    """An instant, and how far in the past or future it is."""
    return f"{_clock(moment)} ({ago(moment, now) if moment <= now else 'in ' + span_text(moment - now)})"


def until(moment: datetime, now: datetime) -> str:
    """An instant in the future, and how far away it is."""
    return f"in {span_text(moment - now)}, at {_clock(moment)}"


def several(n: int, noun: str) -> str:
    """A number with its noun."""
    return f"{n} {noun}" + "s" * (n != 1)


def loss_text(error: Mapping[str, object] | None) -> str:
    """How a job was lost, by the error of its last attempt. The worker of a stalled job lives."""
    reason = str((error or {}).get("reason"))
    if reason.startswith("no progress"):
        return f"It made {reason} and its lane took it from its worker"
    if reason == "blocked the event loop":
        return "It blocked the event loop of its worker, whose process was replaced"
    return "Its worker died or fell silent while it ran"


def blame(error: Mapping[str, object] | None) -> str:
    """Reason, class and message of a stored error in one line; empty: nothing is stored."""
    parts = [str(error[key]) for key in ("reason", "type", "message") if error.get(key)] if error else []
    line = ": ".join(parts).partition("\n")[0]
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
