"""Wake verbs: workers look for jobs at once, instead of at their next poll."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rowlock.model.notify_messages import encode_wake_up
from rowlock.model.queue_pair import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock.model.queue_pair import Pair
    from rowlock.store.database import Database
    from rowlock.store.executor import SqlExecutor, SqlSession

Woken = Literal["notified", "nobody is hungry", "queue is full"]
"""What a wake-up did. While PostgreSQL's queue of notifications is full, workers find jobs by polling."""


async def wake(executor: SqlExecutor, *, channel: str, payload: str) -> Woken:
    """Notify workers of claimable jobs, if one waits for any."""
    rows = await executor.fetch("wake", channel=channel, payload=payload)
    if not rows:
        return "nobody is hungry"
    return "notified" if rows[0]["notified"] else "queue is full"


async def announce_pairs(executor: Database | SqlSession, pairs: Iterable[Pair]) -> None:
    """Tell every worker of pairs that are new, whether it is busy or not."""
    payload = encode_wake_up(dict.fromkeys(pairs, BEGINNING))
    await executor.fetch("notify", channel=executor.channel, payload=payload)
