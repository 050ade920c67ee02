"""Rows to values: jobs, attempts, acts, items, log lines and progress, secrets redacted."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from rowlock.errors import InvalidOption
from rowlock.model import stored_args, stored_json
from rowlock.model.job import Act, Attempt, Job
from rowlock.model.progress import Item, ItemCounts, ItemState, LogLine, Phase, Progress, missed_between
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock.store.database import Record


class Row(Protocol):
    """A row by column name: a driver's record, or its copy in a child process."""

    def __getitem__(self, column: str, /) -> Any:  # noqa: ANN401 - any column
        """The value of a column."""


def ref_text(value: object) -> str:
    """A reference as the table job_refs stores it: a text or UUID as it is, any other value as JSON."""
    try:
        return str(value) if isinstance(value, str | UUID) else json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"A reference is a JSON value: {error}."
        raise InvalidOption(message) from None


def runs_of(row: Row) -> int:
    """How often the job was claimed: what a requeue takes from one of these counts it adds to another."""
    return int(row["attempt"] + row["losses"] + row["refunds"] + (row["runs_before"] or 0))


def job_of(row: Row, *, reveal: bool = False) -> Job:
    """A Job from the columns of job_view. reveal: with the secrets of args and result."""
    args, args_version = stored_args.of_row(row["args"], reveal=reveal)
    return Job(
        id=row["id"],
        kind=row["kind"],
        state=State(row["state"]),
        priority=row["priority"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        losses=row["losses"],
        runs=runs_of(row),
        fence=row["fence"],
        seq=row["seq"],
        created_at=row["created_at"],
        run_after=row["run_after"],
        claimed_at=row["claimed_at"],
        finished_at=row["finished_at"],
        expires_at=row["expires_at"],
        too_old_at=row["too_old_at"],
        lane=row["lane"],
        worker=row["worker"],
        tenant=row["tenant"],
        submitted_by=row["submitted_by"],
        cancel_requested=row["cancel_requested"],
        unique_key=row["unique_key"],
        gate_key=row["gate_key"],
        tags=tuple(tag for tag in row["tags"] or () if tag is not None),
        refs=stored_json.shown_object(row["refs"], "refs"),
        meta=stored_json.shown_object(row["meta"], "meta"),
        args=args,
        args_version=args_version,
        result=stored_args.result_of_row(row["result"], reveal=reveal),
        errors=error_of(row["errors"]),
        progress=progress_of(row),
        last_progress_at=row["reported_at"],
        workflow_id=row["workflow_id"],
        step=row["step"],
        backend_job_id=row["backend_job_id"],
    )


def error_of(text: str | None) -> dict[str, Any] | None:
    """A stored error, or the object that says why it cannot be read; None: there is none."""
    return None if text is None else stored_json.shown_object(text, "the error")


def progress_of(row: Row) -> Progress | None:
    """A Progress from its columns; None: nothing was reported, or log lines only."""
    if row["progress"] is None:
        return None
    try:
        return _progress_of(row, stored_json.read_object(row["progress"]))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        why = error if isinstance(error, stored_json.UnreadableJson) else "Rowlock did not write it"
        return Progress(row["phase"], message=f"the progress cannot be read: {why}", reported_at=row["reported_at"])


def _progress_of(row: Row, counters: dict[str, Any]) -> Progress:
    counts = ItemCounts(
        row["items_in_progress"] or 0,
        row["items_completed"] or 0,
        row["items_skipped"] or 0,
        row["items_failed"] or 0,
        counters.get("items"),
    )
    return Progress(
        phase=row["phase"],
        done=_number(counters.get("done") or 0),
        total=None if counters.get("total") is None else _number(counters["total"]),
        message=None if counters.get("message") is None else str(counters["message"]),
        reported_at=row["reported_at"],
        phases=tuple(_phase_of(phase) for phase in stored_json.read(row["phases"] or "[]")),
        items=counts if counts.total is not None or counts.ended or counts.in_progress else None,
        n=row["report"],
        started_at=_moment(counters.get("since")),
        begun_at=_number(counters.get("from") or 0),
    )


def _phase_of(values: dict[str, Any]) -> Phase:
    return Phase(
        name=str(values["name"]),
        started_at=_moment(values.get("started_at")),
        ended_at=_moment(values.get("ended_at")),
        done=_number(values.get("done", 0)),
        total=None if values.get("total") is None else _number(values["total"]),
    )


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(value)
    return value


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def item_of(row: Record) -> Item:
    """An Item from its row."""
    return Item(
        name=row["name"],
        state=ItemState(row["state"]),
        phase=row["phase"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        reason=row["reason"],
        error=error_of(row["error"]),
    )


def lines_of(found: Iterable[Record], after: int) -> list[LogLine]:
    """Log lines from their rows, in order. after: the number of the line before the first one; 0: there is none."""
    lines = []
    for row in found:
        missed = missed_between(after, row["n"])
        lines.append(LogLine(row["n"], row["at"], row["level"], row["logger"], row["message"], missed))
        after = row["n"]
    return lines


def attempt_of(row: Record) -> Attempt:
    """An Attempt from its row."""
    return Attempt(
        fence=row["fence"],
        attempt=row["attempt"],
        worker=row["worker_name"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        outcome=row["outcome"],
        error=error_of(row["error"]),
    )


def act_of(row: Record) -> Act:
    """An Act from its row."""
    return Act(at=row["at"], verb=row["verb"], by=row["by_whom"], note=row["note"])
