"""ReleasedJob: workflow steps that waited for other jobs and may run now, as statements that end jobs answer them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rowlock.model.pair import Pair


class ReleasedJob(NamedTuple):
    """One released step."""

    id: int
    pair: Pair
    run_after: datetime


def parse_released(text: str | None) -> list[ReleasedJob]:
    """Read the answer of a statement that ends jobs; None: no step waited for them."""
    return [
        ReleasedJob(number, (kind, priority, share), datetime.fromtimestamp(float(low), UTC))
        for number, kind, priority, share, low in json.loads(text or "[]")
    ]
