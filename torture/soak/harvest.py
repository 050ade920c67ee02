"""Harvest: what the tables had before retention removed it, so that in the end the checker sees every job there was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torture.evidence import Attempt, Counts, Evidence, Row


class Harvest:
    """Fed more often than rows may go. keep: seconds a finished job must stay."""

    def __init__(self, keep: float) -> None:
        self._keep = keep
        self._rows: dict[int, Row] = {}
        self._attempts: dict[tuple[int, int, str], Attempt] = {}
        self._edges: dict[tuple[int, int], None] = {}
        self._counts: dict[int, Counts] = {}
        self._last: dict[int, Row] = {}
        self.early: list[str] = []
        """Rows that were removed before their time."""
        self.removed = 0
        self._looked_at: float | None = None
        self._missed = False
        """Whether a job may have ended and gone between two looks, as on a machine that is too busy."""

    def take(self, seen: Evidence, now: float, began: float | None = None) -> None:
        """Remember what stood in the tables. now: after it was read; began: before that, by default the same moment."""
        gone = [row for row in self._last.values() if row.id not in seen.rows]
        self.removed += len(gone)
        for row in gone:
            if row.finished_at is not None and row.finished_at + self._keep > now:
                self.early.append(f"job {row.id} was removed {now - row.finished_at:.1f} s after its end")
        self._remember(seen)
        self._last = {**seen.rows}
        self._look(now)
        self._looked_at = now if began is None else began

    def _look(self, now: float) -> None:
        self._missed |= self._looked_at is not None and now - self._looked_at >= self._keep

    def _remember(self, seen: Evidence) -> None:
        self._rows |= seen.rows
        self._attempts |= {(one.job, one.fence, one.outcome): one for one in seen.attempts}
        self._edges |= dict.fromkeys(seen.edges)
        self._counts |= {one.job: one for one in seen.counts}

    @property
    def jobs(self) -> int:
        """How many there were so far."""
        return len(self._rows)

    def whole(self, seen: Evidence, now: float) -> Evidence:
        """The end as it is in the tables, with all that was there before. now: after it was read."""
        self._remember(seen)
        self._look(now)
        # Ticks that came too late for a worker were taken away by the harness, not by retention.
        late = {row.id for row in self._rows.values() if row.kind == "tick" and not row.is_final} - seen.rows.keys()
        return replace(
            seen,
            rows={number: row for number, row in self._rows.items() if number not in late},
            attempts=list(self._attempts.values()),
            edges=list(self._edges),
            counts=list(self._counts.values()),
            counted=None if self._missed else seen.counted,
        )
