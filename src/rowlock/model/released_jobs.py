"""ReleasedJob: jobs that waited for others and may run now, as the statements that end jobs tell of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import NamedTuple


class ReleasedJob(NamedTuple):
    """One of them. pair: its kind, priority and share, which is where workers look for it."""

    id: int
    pair: tuple[str, int, int]
    run_after: datetime


def parse_released(text: str | None) -> list[ReleasedJob]:
    """Read the answer of a statement that ends jobs; None: nobody waited for them."""
    return [
        ReleasedJob(number, (kind, priority, share), datetime.fromtimestamp(float(low), UTC))
        for number, kind, priority, share, low in json.loads(text or "[]")
    ]
