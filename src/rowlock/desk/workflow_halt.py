"""Ends the live steps of a cancelled workflow, in batches; upkeep goes on if the process that began it dies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseBusy
from rowlock.model.state import State

if TYPE_CHECKING:
    from rowlock.store.database import Database, Record

_REASON: Final = '{"reason": "workflow cancelled"}'


async def halt(database: Database, workflow: int) -> Record:
    """Cancel one batch of waiting steps and ask running ones to stop. No ids in the answer: none are left.

    A step that another transaction holds, as ctx.guarded() does, is left to upkeep; the others do not wait for it.
    """
    try:
        (row,) = await database.fetch_briefly(
            "workflow_halt", workflow=workflow, state=State.CANCELLED, error=_REASON, channel=database.channel
        )
    except DatabaseBusy:
        (row,) = await database.fetch(
            "workflow_halt_unheld", workflow=workflow, state=State.CANCELLED, error=_REASON, channel=database.channel
        )
    return row
