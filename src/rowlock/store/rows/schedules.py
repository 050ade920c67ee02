"""Schedules: rows to values, and values to parameters."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from rowlock.errors import InvalidOption, ScheduleNotFound
from rowlock.model import stored_json
from rowlock.model.schedule import Schedule
from rowlock.model.spelling.similar_names import closest
from rowlock.model.times.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock.store.database import Record

logger = logging.getLogger("rowlock.schedules")
_AS_THEY_ARE = (
    *("name", "kind", "cron", "every", "tz", "missed", "most_missed", "overlap", "tenant", "submitted_by", "enabled"),
    *("next_at", "last_at", "last_job", "skipped_at", "skipped_why", "version", "created_at", "updated_at"),
)


def schedule_of(row: Record) -> Schedule:
    """A Schedule from its row."""
    return Schedule(
        **{name: row[name] for name in _AS_THEY_ARE},
        args=stored_json.shown_object(row["args"], "arguments"),
        options=stored_json.shown_object(row["options"], "options"),
        windows=tuple(Window.from_json(window) for window in json.loads(row["windows"])),
        declared=None if row["declared"] is None else json.loads(row["declared"]),
    )


def readable_schedules(rows: Iterable[Record]) -> list[Schedule]:
    """Schedules from their rows; one that was written by hand and cannot be read is left out and logged."""
    found = []
    for row in rows:
        try:
            found.append(schedule_of(row))
        except (InvalidOption, KeyError, TypeError, ValueError) as error:
            logger.warning(
                "the schedule %s is left out, its row cannot be read (%s: %s): mend it in the table schedules",
                *(row["name"], type(error).__name__, error),
            )
    return found


def values_of(schedule: Schedule) -> dict[str, object]:
    """The parameters that schedule_add and schedule_set share: the columns that a person or declaration sets."""
    return {
        "name": schedule.name,
        "kind": schedule.kind,
        "args": json.dumps(dict(schedule.args)),
        "options": json.dumps(dict(schedule.options)),
        "cron": schedule.cron,
        "every": schedule.every,
        "tz": schedule.tz,
        "missed": schedule.missed,
        "most_missed": schedule.most_missed,
        "overlap": schedule.overlap,
        "windows": json.dumps([window.as_json() for window in schedule.windows]),
        "tenant": schedule.tenant,
        "enabled": schedule.enabled,
        "declared": None if schedule.declared is None else json.dumps(dict(schedule.declared)),
    }


def unknown_schedule(name: str, known_names: Iterable[str]) -> ScheduleNotFound:
    """The error for a schedule that does not exist, or that the caller may not see."""
    names = sorted(known_names)
    near = closest(name, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ScheduleNotFound(f"There is no schedule {name!r}.{hint}")
