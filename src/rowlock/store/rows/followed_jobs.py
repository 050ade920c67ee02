"""Rows to values: what a poll of followed jobs found, secrets redacted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rowlock.model.event import JobTimeline, TimelineAct, TimelineProgress
from rowlock.model.job import Attempt
from rowlock.model.state import State
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from rowlock.store.database import Record


def life_of(row: Record, most: int) -> JobTimeline:
    """A JobTimeline from a row of stream_look; most: the limit its attempts and acts were read with."""
    attempts = [_attempt(one) for one in json.loads(row["attempts"] or "[]")]
    acts = [_act(one) for one in json.loads(row["acts"] or "[]")]
    until = row["fence"]
    if len(attempts) >= most:
        until = min(until, attempts[-1].fence + 1)
    if len(acts) >= most:
        until = min(until, acts[-1].fence - 1)
    progress = rows.progress_of(row)
    return JobTimeline(
        job_id=row["id"],
        kind=row["kind"],
        state=State(row["state"]),
        fence=row["fence"],
        seq=row["seq"],
        attempt=row["attempt"],
        priority=row["priority"],
        lane=row["lane"],
        worker=row["worker"],
        owned=row["claimed_by"] is not None,
        created_at=row["created_at"],
        run_after=row["run_after"],
        claimed_at=row["claimed_at"],
        finished_at=row["finished_at"],
        error=rows.error_of(row["error"]) or {},
        since=row["since"],
        until=until,
        attempts=attempts,
        acts=acts,
        report=None if progress is None else TimelineProgress(row["reported_fence"], row["report"], progress),
        line=row["line"] or 0,
    )


def _attempt(one: dict[str, Any]) -> Attempt:
    return Attempt(
        fence=one["fence"],
        attempt=one["attempt"],
        worker=one["worker_name"],
        started_at=_moment(one["started_at"]),
        ended_at=_at(one["ended_at"]),
        outcome=one["outcome"],
        error=_error(one["error"]),
    )


def _error(value: object) -> dict[str, Any] | None:
    return None if value is None else rows.error_of(json.dumps(value))


def _act(one: dict[str, Any]) -> TimelineAct:
    detail = one["detail"]
    return TimelineAct(
        verb=one["verb"],
        at=_at(one["at"]),
        by=one["by_whom"],
        note=one["note"],
        fence=detail["fence"],
        seq=detail["seq"],
        no_transition=bool(detail.get("stays")),
        previous_state=detail.get("was"),
        ended_at=_moment(detail.get("ended_at")),
        priority=detail.get("priority"),
    )


def _at(text: str) -> datetime:
    # JSON has instants in the session's time zone; everywhere else they are in UTC.
    return datetime.fromisoformat(text).astimezone(UTC)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else _at(text)
