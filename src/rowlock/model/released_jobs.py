"""Jobs that became claimable because the jobs they waited for have ended, as SQL statements answer them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rowlock.model.queue_pair import Pair


class ReleasedJob(NamedTuple):
    """A job that may run now. pair: its kind, priority and share, under which workers look for it."""

    id: int
    pair: Pair
    run_after: datetime


def parse_released(text: str | None) -> list[ReleasedJob]:
    """Read the `released` column of a statement that ends jobs; None: no job waited for them."""
    return [
        ReleasedJob(number, (kind, priority, share), datetime.fromtimestamp(float(low), UTC))
        for number, kind, priority, share, low in json.loads(text or "[]")
    ]
