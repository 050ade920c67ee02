"""Jobs as the application's own API shows them: the row of the view `queue_job`, with the public id."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from sqlalchemy import text

from examples.docverse.tables import sessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock import Job, Rowlock


class QueueJob(BaseModel):
    """A job in the words of the design. phase: inventory, tracking, editions or dashboard."""

    id: str
    kind: str
    status: str
    phase: str | None
    progress: dict[str, Any] | None
    errors: dict[str, Any] | None
    backend_job_id: str | None
    attempt: int
    date_created: datetime
    date_started: datetime | None
    date_completed: datetime | None


async def shown(tasks: Rowlock, jobs: Sequence[Job]) -> list[QueueJob]:
    """These jobs, which the caller may see, in their order; one that has gone meanwhile is left out."""
    async with sessions(tasks)() as session:
        query = text("SELECT * FROM queue_job WHERE id = ANY(:ids)")
        found = await session.execute(query, {"ids": [job.id for job in jobs]})
        rows = {row["id"]: row for row in found.mappings()}
    return [QueueJob.model_validate({**rows[job.id], "id": job.public_id}) for job in jobs if job.id in rows]
