"""Every job of the application. The API imports this module to enqueue, the worker to run its jobs.

The worker is `rowlock worker --app examples.adventures.tasks:tasks`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from examples.adventures import observability
from examples.adventures.adventure_service import AdventureService, NotFound
from examples.adventures.database import engine, open_session
from examples.adventures.digest_service import NewsDigestService
from examples.adventures.outbound.ports import Services
from examples.adventures.outbound.services import open_services
from rowlock import Context, Depends, Failure, Job, Retry, Rowlock
from rowlock.contrib.opentelemetry import instrument

LANE: Final = "adventure_pipeline"
SLOTS: Final = 4
"""Entries made at once by a worker: they wait for services, so more would do, as far as their rate limits allow."""

observability.set_up()
tasks = Rowlock(engine=engine)
instrument(tasks)
tasks.lanes.define(LANE, kinds=["adventures.entry", "adventures.entry/on_exhausted", "news.digest"], slots=SLOTS)


# --- what handlers are given ------------------------------------------------------------------------------------------

OneSession = Annotated[AsyncSession, Depends(open_session)]
"""One per job, shared by all that its handler is given."""
AllServices = Annotated[Services, Depends(open_services, scope="worker")]
"""One per worker process."""


def adventure_service(session: OneSession, services: AllServices) -> AdventureService:
    """The service of one job."""
    return AdventureService(session, services)


def digest_service(session: OneSession, services: AllServices) -> NewsDigestService:
    """The service of one job."""
    return NewsDigestService(session, services.writer)


Adventures = Annotated[AdventureService, Depends(adventure_service)]
Digests = Annotated[NewsDigestService, Depends(digest_service)]


# --- the jobs ---------------------------------------------------------------------------------------------------------


@tasks.job(
    "adventures.entry",
    lane=LANE,
    retry=Retry(attempts=3, minimum="30s", multiplier=2, jitter="30s", never=(NotFound,)),
    timeout="10m",
    refs=lambda adventure_id, entry_id, user_id: {"adventure": adventure_id, "entry": entry_id, "user": user_id},
)
async def generate_adventure_entry(
    ctx: Context,
    adventure_id: UUID,
    entry_id: UUID,
    user_id: UUID,
    service: AdventureService = Depends(adventure_service),  # a default, so that enqueue() is checked without it
) -> None:
    """Make an entry of an adventure."""
    await service.run_entry_pipeline(ctx, adventure_id, entry_id, user_id)


@generate_adventure_entry.on_exhausted
async def mark_error(job: Job, error: Failure, service: Adventures) -> None:
    """After the last attempt: the entry's status becomes error."""
    await service.mark_error(UUID(str(job.args["entry_id"])), error.message or error.reason)


@tasks.schedule("0 2 * * *", missed="latest")  # 02:00 UTC; a run that was missed is made once
@tasks.job("news.digest", lane=LANE, retry=Retry(attempts=3, minimum="30s"))
async def generate_nightly_news_digest(ctx: Context, service: Digests) -> str:
    """Make the digest of the day that the schedule means, however late the job runs."""
    slot = ctx.job.meta.get("slot")
    day = (datetime.fromisoformat(str(slot)) if slot else ctx.job.created_at).date()
    await service.run(day)
    return day.isoformat()
