"""Ends the live steps of a cancelled workflow, in batches; upkeep goes on if the process that began it dies."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rowlock.errors import DatabaseBusy, WriteRefused
from rowlock.model.state import State
from rowlock.store.batch_halving import in_halves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.store.database import Database, Record

logger = logging.getLogger("rowlock.workflows")
_REASON: Final = '{"reason": "workflow cancelled"}'


async def halt(database: Database, workflow: int) -> Sequence[Record]:
    """Cancel one batch of waiting steps and ask running ones to stop. No ids in the answers: none are left.

    A step that another transaction holds, as ctx.guarded() does, or whose write the database refuses is left to upkeep;
    the others do not wait for it.
    """
    channel, state = database.channel, State.CANCELLED
    try:
        try:
            return await database.fetch_briefly(
                "workflow_halt", workflow=workflow, state=state, error=_REASON, channel=channel, only=None
            )
        except DatabaseBusy:
            return await database.fetch(
                "workflow_halt_unheld", workflow=workflow, state=state, error=_REASON, channel=channel, only=None
            )
    except WriteRefused as error:
        logger.warning("a step of workflow %d cannot be ended; the others are: %s", workflow, error)
    answers: list[Record] = []

    async def halt_some(steps: list[int]) -> None:
        answers.extend(
            await database.fetch(
                "workflow_halt_unheld", workflow=workflow, state=state, error=_REASON, channel=channel, only=steps
            )
        )

    await in_halves([row["id"] for row in await database.fetch("workflow_live_steps", workflow=workflow)], halt_some)
    return answers
