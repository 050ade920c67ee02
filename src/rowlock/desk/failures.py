"""app.failures: failures by cause, with counts, a sample and whether a person has muted them."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowlock.desk import audit
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.errors import DatabaseBusy, FailureGroupNotFound, InvalidOption, WriteRefused
from rowlock.model.access import Permission
from rowlock.model.failure_group import FAILURE_SORTS, MOST_GROUPS, FailureGroup, FailureGroups
from rowlock.model.times.duration import duration
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from rowlock.model.failure_group import FailureSort
    from rowlock.model.options import Span
    from rowlock.store.database import Database, Record

_FOLDED_AT_ONCE: Final = 10_000
"""Failures that one read moves into their groups at most."""
_MOST: Final = 500
_LONGEST: Final = timedelta(days=31)
_STEPS: Final = (
    (timedelta(days=2), timedelta(hours=1)),
    (timedelta(days=8), timedelta(hours=4)),
    (_LONGEST, timedelta(days=1)),
)
"""Windows up to so long are counted in steps of so much."""


class FailuresByCause:
    """Failure groups. Without jobs:read_all a principal sees those of its tenant, and without a tenant none."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @reads(Permission.READ)
    async def list(
        self,
        *,
        window: Span = "24h",
        kind: str | None = None,
        muted: bool | None = None,
        sort: FailureSort = "recent",
        limit: int = 50,
    ) -> FailureGroups:
        """Groups with a failure within the window. muted: only muted or only open ones; None: both."""
        if not 1 <= limit <= _MOST:
            message = f"limit must be from 1 to {_MOST}; got {limit}."
            raise InvalidOption(message)
        if sort not in FAILURE_SORTS:
            message = f"sort must be one of {', '.join(FAILURE_SORTS)}; got {sort!r}."
            raise InvalidOption(message)
        return await self._read(window, kind=kind, muted=muted, sort=sort, n=limit)

    @reads(Permission.READ)
    async def get(self, fingerprint: str, *, window: Span = "31d") -> FailureGroup:
        """One group, with the traceback of its sample. window: the time that `within` and `steps` count."""
        found = await self._read(window, fingerprint=fingerprint, since_ever=True)
        if not found.groups:
            raise _not_found(fingerprint)
        return found.groups[0]

    @changes(Permission.RETRY)
    async def mute(self, fingerprint: str, *, by: str | None = None, note: str | None = None) -> FailureGroup:
        """Set a group aside as known: it goes on counting, and lists of open groups leave it out."""
        return await self._order("mute", fingerprint, by, note)

    @changes(Permission.RETRY)
    async def unmute(self, fingerprint: str, *, by: str | None = None, note: str | None = None) -> FailureGroup:
        """Open a muted group again."""
        return await self._order("unmute", fingerprint, by, note)

    async def _order(self, verb: str, fingerprint: str, by: str | None, note: str | None) -> FailureGroup:
        author = self._guard.name_of(by)
        await self._fold()
        async with self._open().transaction() as session:
            if verb == "mute":
                changed = await session.fetch(
                    "failure_mute", fingerprint=fingerprint, by_whom=author, note=note, **self._guard.visibility
                )
            else:
                changed = await session.fetch("failure_unmute", fingerprint=fingerprint, **self._guard.visibility)
            if changed:
                after = {"kind": changed[0]["kind"]}
                target = f"failure:{fingerprint}"
                await audit.record(session, self._guard, f"failure.{verb}", target, after=after, by=by, note=note)
        found = await self._read("31d", fingerprint=fingerprint, since_ever=True)
        if not found.groups:
            raise _not_found(fingerprint)
        return found.groups[0]

    async def _fold(self) -> None:
        """Move what waits into the groups, so that a failure is seen as soon as it is committed.

        If a row is refused, the groups are read as they are: upkeep moves the others within seconds, and says why.
        """
        with contextlib.suppress(WriteRefused, DatabaseBusy):
            await self._open().fetch("fold_failures", batch=_FOLDED_AT_ONCE, groups=MOST_GROUPS, only=None)

    async def _read(
        self,
        window: Span,
        *,
        fingerprint: str | None = None,
        kind: str | None = None,
        muted: bool | None = None,
        sort: FailureSort = "recent",
        n: int = 1,
        since_ever: bool = False,
    ) -> FailureGroups:
        span = min(duration(window, "window"), _LONGEST)
        if span <= timedelta(0):
            message = f"window must be longer than 0; got {window!r}."
            raise InvalidOption(message)
        step = next(step for longest, step in _STEPS if span <= longest)
        await self._fold()
        async with self._open().snapshot() as snapshot:
            (start,) = await snapshot.fetch("series_since", step=step.total_seconds(), window=span)
            since, now = start["since"], start["now"]
            found = await snapshot.fetch(
                "failure_groups",
                since=now - _LONGEST if since_ever else since,
                counted_since=since,
                fingerprint=fingerprint,
                kind=kind,
                muted=muted,
                sort=sort,
                n=n,
                whole=fingerprint is not None,
                **self._guard.visibility,
            )
            names = [row["fingerprint"] for row in found]
            hours = await snapshot.fetch(
                "failure_hours", step=step.total_seconds(), fingerprints=names, since=since, **self._guard.visibility
            )
        counts = {(row["fingerprint"], row["at"]): row["n"] for row in hours}
        moments = [since + step * number for number in range(int((now - since) / step) + 1)]
        return FailureGroups(since, step, [_group(row, counts, moments) for row in found])


def _group(row: Record, counts: Mapping[tuple[str, datetime], int], moments: Sequence[datetime]) -> FailureGroup:
    names = ("fingerprint", "kind", "message", "first_seen", "last_seen", "failed", "retried", "within", "last_job_id")
    return FailureGroup(
        **{name: row[name] for name in (*names, "muted_at", "muted_by", "note", "other")},
        error=rows.error_of(row["error"]),
        steps=[counts.get((row["fingerprint"], at), 0) for at in moments],
    )


def _not_found(fingerprint: str) -> FailureGroupNotFound:
    message = (
        f"There is no failure group {fingerprint!r}. Groups are removed 31 days after their last failure. "
        "See GET /failures or: rowlock failures ls"
    )
    return FailureGroupNotFound(message)
