"""When one row makes a duty's statement fail, the statement runs without that row, which is tried again later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.store.batch_halving import in_halves
from rowlock.store.database import RACES, UNSERVED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.set_aside import RowName
    from rowlock.store.database import Record
    from rowlock.upkeep.duty import DutyContext

_SECONDS: Final = 20.0
"""Seconds that one run of a duty looks for rows to blame; the next run goes on."""
_RACES_LOST: Final = 3
"""So often a statement may lose a race before its rows are tried apart."""


async def fetch_apart(
    context: DutyContext, name: str, candidates: str, among: Mapping[str, object] | None = None, /, **values: object
) -> list[list[Record]]:
    """Run a statement that changes many rows, and return the rows of each run of it.

    candidates: the statement for the rows that it may change, more of them rather than fewer; among: its values. A job
    is named by its id, any other row in words. The statement takes `only`: the rows to consider, None for all. A run
    that fails, or waits for a lock for long, is halved until the row to blame is alone.
    """
    if name not in context.refused:
        for _ in range(_RACES_LOST):
            try:
                return [await context.database.fetch_for_upkeep(name, only=None, **values)]
            except UNSERVED:
                raise
            except Exception as error:  # noqa: BLE001 - whatever makes it fail, other rows may be fine
                if not isinstance(error, RACES):
                    break
    if context.refused.rests(name):
        return []
    passed_over = set(context.refused.passed_over(name))
    rows = await context.database.fetch(candidates, **(among or {}))
    return await _in_halves(context, name, [row["id"] for row in rows if row["id"] not in passed_over], values)


async def _in_halves(
    context: DutyContext, name: str, rows: list[RowName], values: dict[str, object]
) -> list[list[Record]]:
    answers: list[list[Record]] = []
    done: list[RowName] = []
    until = context.monotonic() + _SECONDS

    async def run(some: list[RowName]) -> None:
        answers.append(await context.database.fetch_for_upkeep(name, only=some, **values))
        done.extend(some)

    try:
        await in_halves(
            rows,
            run,
            may_go_on=lambda: context.monotonic() < until,
            refused=lambda row, error: context.refused.refused(name, row, error),
        )
    except UNSERVED:
        if not answers:
            raise
    context.refused.written(name, done)
    return answers
