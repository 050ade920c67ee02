"""app.retention: how long finished jobs stay in this deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.desk import audit
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.errors import UnknownKind
from rowlock.model.access import Permission
from rowlock.model.retention import EVERY, RetentionRule, checked_keep, checked_state
from rowlock.model.spelling.similar_names import closest

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable

    from rowlock.model.options import Span
    from rowlock.store.database import Database


class Retention:
    """Retention rules. Of the rules that fit a job the most specific decides: kind before state, either before *."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @reads(Permission.WORKERS_VIEW)
    async def list(self) -> list[RetentionRule]:
        """Every rule, the widest first."""
        return await self._rules(None)

    async def _rules(self, kind: str | None) -> builtins.list[RetentionRule]:
        return [RetentionRule(**row) for row in await self._open().fetch("retention", kind=kind)]

    @changes(Permission.WORKERS_MANAGE)
    async def set(self, kind: str, keep: Span, *, state: str = "*") -> RetentionRule:
        """Keep finished jobs of a kind for that long, whatever its code says; * for every kind. Holds from now on.

        Jobs that ended longer ago are removed within half a minute. A rule for a state of the kind is more specific and
        still decides.
        """
        state, kept = checked_state(state), checked_keep(keep)
        await self._known(kind)
        async with self._open().transaction() as session:
            before = [RetentionRule(**row) for row in await session.fetch("retention_lock", kind=kind, state=state)]
            if before and before[0].ordered == kept == before[0].keep:
                return before[0]
            (row,) = await session.fetch("retention_order", kind=kind, state=state, keep=kept)
            after = RetentionRule(**row)
            was = _audit_fields(before[0]) if before else None
            target = _target(kind, state)
            await audit.record(session, self._guard, "retention.set", target, before=was, after=_audit_fields(after))
        return after

    @changes(Permission.WORKERS_MANAGE)
    async def reset(self, kind: str, *, state: str = "*") -> RetentionRule | None:
        """Remove the retention that was set here; returns the rule of the code, or None if it has none."""
        state = checked_state(state)
        async with self._open().transaction() as session:
            before = [RetentionRule(**row) for row in await session.fetch("retention_lock", kind=kind, state=state)]
            if not before or before[0].ordered is None:
                return before[0] if before else None
            found = [RetentionRule(**row) for row in await session.fetch("retention_reset", kind=kind, state=state)]
            after = _audit_fields(found[0]) if found else None
            target = _target(kind, state)
            await audit.record(
                session, self._guard, "retention.reset", target, before=_audit_fields(before[0]), after=after
            )
        return found[0] if found else None

    async def _known(self, kind: str) -> None:
        """Refuse a kind that no worker has declared: a mistyped rule would keep nothing."""
        if kind == EVERY:
            return
        names = [row["name"] for row in await self._open().fetch("kind_names")]
        if kind not in names and not await self._rules(kind):
            near = closest(kind, names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " A worker makes its kinds known when it starts."
            message = f"There is no kind {kind!r}.{hint}"
            raise UnknownKind(message)


def _target(kind: str, state: str) -> str:
    return f"retention:{kind}:{state}"


def _audit_fields(rule: RetentionRule) -> dict[str, object]:
    return {"keep": rule.keep, "source": rule.source}
