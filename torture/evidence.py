"""Evidence: what a run left behind, as plain values. The checker judges it, and tests make it by hand."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from torture import ledger
from torture.ledger import Asked, Line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

FINAL: Final = frozenset({"completed", "completed_with_errors", "failed", "cancelled", "expired"})


@dataclass(frozen=True, slots=True)
class Row:
    """A job as the table has it in the end. Moments are seconds of the database's clock."""

    id: int
    kind: str
    state: str
    fence: int
    created_at: float
    finished_at: float | None = None
    tag: str = ""
    token: str = ""
    """The stored result."""
    gate: str = ""
    gate_place: int = 0
    unique_key: str = ""
    schedule: str = ""
    slot: float | None = None
    losses: int = 0
    reason: str = ""

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.state in FINAL


@dataclass(frozen=True, slots=True)
class Attempt:
    """A row of an attempt that did not end its job."""

    job: int
    fence: int
    outcome: str
    ended_at: float


@dataclass(frozen=True, slots=True)
class Counts:
    """The items of a job. total: how many its handler had."""

    job: int
    in_progress: int
    completed: int
    skipped: int
    failed: int
    total: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything there is to judge by."""

    lines: Sequence[Line] = ()
    asked: Sequence[Asked] = ()
    rows: Mapping[int, Row] = field(default_factory=dict)
    attempts: Sequence[Attempt] = ()
    edges: Sequence[tuple[int, int]] = ()
    """Upstream and downstream jobs."""
    counts: Sequence[Counts] = ()
    gates: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Places and holders by key."""
    every: Mapping[str, float] = field(default_factory=dict)
    """Seconds from slot to slot, by schedule."""
    counted: Mapping[str, int] | None = None
    """Ended jobs by state as statistics count them; None: jobs ended before the tables had counts."""
    reopened: int = 0
    """Finished jobs that were started again: the end of each is counted twice."""
    open_workflows: int = 0
    doomed: frozenset[str] = frozenset()
    """Kinds that must fail; all others must succeed."""
    dropped: frozenset[str] = frozenset()
    """Kinds whose jobs somebody cancels."""
    delays: Mapping[str, float] = field(default_factory=dict)
    """Kinds whose jobs may not start before so many seconds after they were made."""
    forgotten: tuple[float, float] | None = None
    """Moments between which the server acknowledged what it has forgotten since; None: it kept everything."""

    def forgot(self, at: float) -> bool:
        """Whether what was acknowledged at that moment may be gone."""
        return self.forgotten is not None and self.forgotten[0] < at <= self.forgotten[1]

    @property
    def standing(self) -> Sequence[Line]:
        """The lines of all runs but those that began under claims which may be forgotten."""
        gone = {_run(line) for line in self.lines if line.what == "start" and self.forgot(line.at)}
        return [line for line in self.lines if _run(line) not in gone] if gone else self.lines


def _run(line: Line) -> tuple[int, str, int, int]:
    return line.pid, line.run, line.job, line.fence


_JOBS: Final = """
SELECT id, kind, state, fence, extract(epoch FROM created_at)::float8 AS created_at,
       extract(epoch FROM finished_at)::float8 AS finished_at, args ->> 'tag' AS tag, result #>> '{}' AS token,
       gate_key, gate_place, unique_key, meta ->> 'schedule' AS schedule, meta ->> 'slot' AS slot, losses,
       errors ->> 'reason' AS reason
FROM rowlock.jobs
"""
_ATTEMPTS: Final = """
SELECT job_id, fence, outcome, extract(epoch FROM ended_at)::float8 AS ended_at FROM rowlock.job_attempts
"""
_COUNTS: Final = """
SELECT j.id AS job, coalesce(p.items_in_progress, 0) AS in_progress, coalesce(p.items_completed, 0) AS completed,
       coalesce(p.items_skipped, 0) AS skipped, coalesce(p.items_failed, 0) AS failed
FROM rowlock.jobs j LEFT JOIN rowlock.job_progress p ON p.job_id = j.id
WHERE j.kind = 'items' AND j.state IN ('completed', 'completed_with_errors')
"""

_COUNTED: Final = """
SELECT t.state, sum(t.n)::bigint AS n FROM rowlock.stats_totals t WHERE t.measure <> 'wait' AND t.state <> '' GROUP BY 1
"""
_REOPENED: Final = "SELECT coalesce(sum(n), 0)::bigint FROM rowlock.stats_totals WHERE outcome = 'reopened'"
_COUNTED_ALL: Final = """
SELECT NOT EXISTS (SELECT 1 FROM rowlock.jobs j WHERE j.finished_at < (SELECT max(c.since) FROM rowlock.counting c))
"""


async def collect(connection: Connection, folder: Path, *, items: int, delays: Mapping[str, float]) -> Evidence:
    """Read the ledger and the tables of a run that is over."""
    return with_ledger(await tables(connection, items=items, delays=delays), folder)


def with_ledger(found: Evidence, folder: Path) -> Evidence:
    """The same with all that handlers and producers wrote down."""
    shift = time.time() - time.monotonic()  # one machine, one clock: the database's is the same as ours
    entries = [replace(entry, at=entry.at + shift) for entry in ledger.read(folder)]
    return replace(
        found,
        lines=sorted((e for e in entries if isinstance(e, Line)), key=lambda line: line.at),
        asked=sorted((e for e in entries if isinstance(e, Asked)), key=lambda asked: asked.at),
    )


async def tables(connection: Connection, *, items: int, delays: Mapping[str, float]) -> Evidence:
    """What the tables have now."""
    return Evidence(
        rows={row["id"]: _row(dict(row)) for row in await connection.fetch(_JOBS)},
        attempts=[Attempt(*row) for row in await connection.fetch(_ATTEMPTS)],
        edges=[tuple(row) for row in await connection.fetch("SELECT upstream, downstream FROM rowlock.edges")],
        counts=[Counts(total=items, **dict(row)) for row in await connection.fetch(_COUNTS)],
        gates={
            row["key"]: (row["max_running"], row["held"])
            for row in await connection.fetch("SELECT key, max_running, held FROM rowlock.gates")
        },
        every={
            row["name"]: row["every"].total_seconds()
            for row in await connection.fetch("SELECT name, every FROM rowlock.schedules WHERE every IS NOT NULL")
        },
        counted={row["state"]: row["n"] for row in await connection.fetch(_COUNTED)}
        if await connection.fetchval(_COUNTED_ALL)
        else None,
        reopened=await connection.fetchval(_REOPENED),
        open_workflows=await connection.fetchval("SELECT count(*) FROM rowlock.workflows WHERE finished_at IS NULL"),
        delays=delays,
    )


def _row(row: Mapping[str, object]) -> Row:
    known = {name: value for name, value in row.items() if value is not None and name not in {"gate_key", "slot"}}
    slot = row["slot"]
    return Row(
        gate=str(row["gate_key"] or ""),
        slot=None if slot is None else datetime.fromisoformat(str(slot)).timestamp(),
        **known,  # type: ignore[arg-type]  # columns named like the fields, of their types
    )


def dumped(evidence: Evidence) -> str:
    """For a person who wants to see what the checker saw."""
    whole = {name.name: getattr(evidence, name.name) for name in fields(evidence)}
    whole["rows"] = list(evidence.rows.values())
    return json.dumps(
        {
            name: [repr(one) for one in value] if isinstance(value, list) else repr(value)
            for name, value in whole.items()
        },
        indent=0,
    )
