"""Halt: the live steps of a workflow whose cancel was asked for are ended, by whoever asked or by upkeep after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.model.state import State

if TYPE_CHECKING:
    from rowlock.store.database import Database, Record

_REASON: Final = '{"reason": "workflow cancelled"}'


async def halt(database: Database, workflow: int) -> Record:
    """One batch: what waits is cancelled, what runs is asked to stop. No ids in the answer: nothing is left to do."""
    (row,) = await database.fetch(
        "workflow_halt", workflow=workflow, state=State.CANCELLED, error=_REASON, channel=database.channel
    )
    return row
