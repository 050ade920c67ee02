"""Rows that cannot be written: held by another transaction, or refused by a trigger; and the steps of a job's life."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from tests.factories import Store
    from tests.upkeep.duty_running import Desk

JOBS = 9
VICTIM = 4
"""Which of the jobs is to blame: one in the middle, in the order of locks."""
REFUSES = """
CREATE FUNCTION public.picky() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.id = {id} THEN {says} END IF;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER picky BEFORE UPDATE OR DELETE ON {s}.jobs FOR EACH ROW EXECUTE FUNCTION public.picky()
"""


@contextlib.asynccontextmanager
async def held(other: Store, job_id: int) -> AsyncIterator[None]:
    """A transaction of another session holds the row."""
    async with other.connection.transaction():
        await other.value("SELECT id FROM {s}.jobs WHERE id = $1 FOR UPDATE", job_id)
        yield


def refused(says: str) -> Callable[[Store, int], AbstractAsyncContextManager[None]]:
    """A trigger of the database's owner fails for the row."""

    @contextlib.asynccontextmanager
    async def spoiling(other: Store, job_id: int) -> AsyncIterator[None]:
        await other.execute(REFUSES.replace("{id}", str(job_id)).replace("{says}", says))
        yield
        await other.execute("DROP TRIGGER picky ON {s}.jobs")

    return spoiling


FAULTS = {
    "held by another transaction": held,
    "refused by a trigger": refused("RAISE EXCEPTION 'not this one';"),
    "met by a trigger without its table": refused("PERFORM 1 FROM public.no_such_table;"),
    "met by a trigger that divides by zero": refused("PERFORM 1 / (OLD.attempt - OLD.attempt);"),
}


class Step(Protocol):
    """One step of a job's life, for many jobs at once."""

    async def prepare(self, desk: Desk) -> list[int]:
        """Jobs that are ready for the step."""

    async def start(self, desk: Desk) -> None:
        """Begin the step."""

    async def again(self, desk: Desk) -> None:
        """What happens from time to time."""

    async def done(self, desk: Desk) -> set[int]:
        """The jobs that have taken the step."""

    async def end(self) -> None:
        """Leave nothing behind."""
