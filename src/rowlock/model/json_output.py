"""How values look in JSON outside of Python: in REST answers, --json, log lines, the audit and explanations.

Instants are RFC 3339 in UTC with a Z, durations are numbers of seconds, and a count says whether it is exact.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta

from rowlock.model.count import Count
from rowlock.model.rate import Rate


def instant(at: datetime, timespec: str = "auto") -> str:
    """2027-01-31T08:00:00Z. timespec: as of datetime.isoformat()."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def count(value: Count) -> dict[str, object]:
    """Exact false: counting stopped there, so there are at least this many."""
    return {"value": value.value, "exact": value.exact}


def rate(value: Rate) -> dict[str, object]:
    """Burst null: a window has none."""
    return {
        "amount": value.amount,
        "per": value.per.total_seconds(),
        "burst": None if value.window else value.burst,
        "window": value.window,
    }


def escaped(text: str) -> str:
    """JSON text with control, formatting and bidirectional characters escaped: a terminal may obey them raw."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def plain(value: object) -> object:
    """A value that JSON does not know, as one that it knows; for json.dumps(default=…)."""
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Count):
        return count(value)
    if isinstance(value, Rate):
        return rate(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)
