"""The reason of a running job that waits for a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.desk.phrases import when
from rowlock.model import ids
from rowlock.model.explanation import Reason

if TYPE_CHECKING:
    from rowlock.desk.explain.facts import Facts
    from rowlock.store.database import Record


def locked(facts: Facts) -> Reason | None:
    """The job waits for locks: which, since when, and who holds them."""
    if not facts.lock_waits:
        return None
    text = "; ".join(_describe_wait(facts, row) for row in facts.lock_waits)
    details = [
        {
            "namespace": row["namespace"],
            "key": row["name"],
            "since": row["since"],
            "holder": None if row["holder_id"] is None else ids.encode(row["holder_id"]),
            "process": row["process"],
            "held_since": row["held_since"],
        }
        for row in facts.lock_waits
    ]
    return Reason("waits_for_lock", f"It waits for {text}.", {"locks": details})


def _describe_wait(facts: Facts, row: Record) -> str:
    text = f"the lock {row['namespace']} {row['name']!r} since {when(row['since'], facts.now)}"
    if row["process"] is None:
        return f"{text}, which changes hands at this moment"
    job = "" if row["holder_id"] is None else f"job {ids.encode(row['holder_id'])} ({row['holder_kind']}) on "
    return f"{text}; {job}{row['process']} holds it since {when(row['held_since'], facts.now)}"
