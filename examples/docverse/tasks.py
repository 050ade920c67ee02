"""The seven kinds of background jobs. An action of a user is one job; its independent parts run side by side."""

from __future__ import annotations

import os
from datetime import datetime  # noqa: TC003 - pydantic reads the annotations
from typing import TYPE_CHECKING, Final

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert

from examples.docverse import tracking
from examples.docverse.dashboards import DashboardService
from examples.docverse.editions import Choice, EditionService
from examples.docverse.factory import credential_keys, queue_backend, services
from examples.docverse.rules import OrganizationRules
from examples.docverse.tables import Build, BuildObject, Edition, Organization, Project, sessions
from rowlock import Context, ItemContext, Job, Retry, Rowlock
from rowlock.delivery.arq import ArqDelivery

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LANE: Final = "docverse"
SLOTS: Final = 20
AT_ONCE: Final = 64
"""Editions, projects or organisations side by side within a job."""
RETRIED: Final = Retry(attempts=3, minimum=os.environ.get("RETRY_PAUSE", "5s"), multiplier=2)
PERIODIC: Final = Retry(attempts=2, minimum=os.environ.get("RETRY_PAUSE", "5s"))
"""Tried again once. What it still misses is caught by the next scheduled run."""
SCHEDULES: Final = {
    "lifecycle_eval": "0 3 * * *",
    "git_ref_audit": "0 4 * * *",
    "purgatory_cleanup": "0 5 * * *",
    "credential_reencrypt": "0 2 * * SUN",
}
"""In UTC. SCHEDULES=cronjobs: Kubernetes fires them instead, with cronjobs.yaml."""

backend = queue_backend()
tasks = Rowlock(delivery=backend)
tasks.lanes.define(LANE, kinds=["*"], slots=SLOTS, heartbeat_timeout="30s")
if isinstance(backend, ArqDelivery):
    WorkerSettings = backend.worker_settings(max_jobs=SLOTS, poll_delay=float(os.environ.get("ARQ_POLL_DELAY", "0.5")))


class NothingUpdated(Exception):
    """Every edition of a build failed."""


def _editions() -> EditionService:
    return EditionService(sessions(tasks), services())


def _dashboards() -> DashboardService:
    return DashboardService(sessions(tasks), services(), _editions())


def _rules() -> OrganizationRules:
    return OrganizationRules(sessions(tasks), services())


# --- builds and editions ----------------------------------------------------------------------------------------------


@tasks.job("build_processing", lane=LANE, retry=RETRIED)
async def process_build(ctx: Context, build_id: int) -> dict[str, list[str]]:
    """Inventory, tracking, editions side by side, dashboard. Every step may run again: then it changes nothing."""
    async with sessions(tasks)() as session:
        build = await session.get_one(Build, build_id)
        project = await session.get_one(Project, build.project_id)
    async with ctx.phase("inventory"):
        await catalog(ctx, build)
    async with ctx.phase("tracking"), sessions(tasks)() as session, session.begin():
        found = await tracking.evaluate(session, build, project)
    choice = Choice(build.id, build.date_created)

    async def update_edition(item: ItemContext, edition: Edition) -> None:
        await _editions().update(item, edition.id, choice)

    async with ctx.phase("editions"):
        done = await ctx.items(found, update_edition, name=lambda edition: edition.slug, limit=AT_ONCE)
    async with ctx.phase("dashboard"):
        await _dashboards().render(ctx, project.id)
    if done.failed and not done.results and not done.skipped:
        message = "; ".join(f"{slug}: {error}" for slug, error in done.failed.items())
        raise NothingUpdated(message)
    async with sessions(tasks)() as session, session.begin(), ctx.guarded(session):
        status = "completed_with_errors" if done.failed else "completed"
        await session.execute(update(Build).where(Build.id == build_id).values(status=status))
    return {"updated": sorted(done.results), "skipped": sorted(done.skipped), "failed": sorted(done.failed)}


async def catalog(ctx: Context, build: Build) -> None:
    """Write the objects of a build into the inventory; those that are there already are written over."""
    found = await services().store.list(build.prefix)
    await ctx.progress(0, len(found), message=f"Cataloging {len(found):,} objects")
    async with sessions(tasks)() as session, session.begin():
        for each in found:
            about = {"content_hash": each.content_hash, "content_type": each.content_type, "size": each.size}
            key = each.key.removeprefix(build.prefix)
            row = insert(BuildObject).values(build_id=build.id, key=key, **about)
            await session.execute(row.on_conflict_do_update(index_elements=["build_id", "key"], set_=about))


@process_build.on_exhausted
async def mark_build_failed(job: Job) -> None:
    """The build's own status, when its job has used up its attempts."""
    async with sessions(tasks)() as session, session.begin():
        await session.execute(update(Build).where(Build.id == job.args["build_id"]).values(status="failed"))


@tasks.job("edition_update", lane=LANE, retry=RETRIED)
async def reassign_edition(ctx: Context, edition_id: int, build_id: int, ordered_at: datetime) -> None:
    """A person gives an edition another build. The moment of the order counts, so an older build is a rollback."""
    async with sessions(tasks)() as session:
        edition = await session.get_one(Edition, edition_id)
    async with ctx.phase("editions"), ctx.item(edition.slug):
        await _editions().update(ctx, edition_id, Choice(build_id, ordered_at))
    async with ctx.phase("dashboard"):
        await _dashboards().render(ctx, edition.project_id)


@tasks.job("dashboard_sync", lane=LANE, retry=RETRIED)
async def sync_dashboards(ctx: Context, repository: str, org_id: int) -> None:
    """Templates from GitHub to the object store, then the dashboards of every project that they are for."""
    async with ctx.phase("templates"):
        await _dashboards().sync_templates(repository)
    async with sessions(tasks)() as session:
        org = await session.get_one(Organization, org_id)
        mine = Project.template_repository == repository
        if org.template_repository == repository:
            mine |= Project.template_repository.is_(None)
        found = (await session.scalars(select(Project).where(Project.org_id == org_id, mine))).all()

    async def render(item: ItemContext, project: Project) -> None:
        await _dashboards().render(item, project.id)

    async with ctx.phase("dashboard"):
        await ctx.items(found, render, name=lambda project: project.slug, limit=AT_ONCE)


# --- periodic jobs ----------------------------------------------------------------------------------------------------


async def for_every_organization(ctx: Context, do: Callable[[str], Awaitable[None]]) -> None:
    """Each organisation is an item. One that fails keeps no other from its turn, and the job is tried again."""

    async def one(_item: ItemContext, slug: str) -> None:
        await do(slug)

    async with ctx.phase("organizations"):
        done = await ctx.items(await _rules().all(), one, limit=AT_ONCE)
    for error in done.failed.values():
        raise error


@tasks.job("lifecycle_eval", lane=LANE, retry=PERIODIC)
async def evaluate_lifecycle(ctx: Context) -> None:
    """Stale drafts and orphan builds."""
    await for_every_organization(ctx, _rules().evaluate_lifecycle)


@tasks.job("git_ref_audit", lane=LANE, retry=PERIODIC)
async def audit_git_refs(ctx: Context) -> None:
    """Editions whose ref was deleted without a word from GitHub."""
    await for_every_organization(ctx, _rules().audit_refs)


@tasks.job("purgatory_cleanup", lane=LANE, retry=PERIODIC)
async def clean_purgatory(ctx: Context) -> None:
    """Objects that were long enough in purgatory. Old jobs need no job: Rowlock's retention removes them."""
    await for_every_organization(ctx, _rules().clean_purgatory)


@tasks.job("credential_reencrypt", lane=LANE, retry=PERIODIC)
async def reencrypt_credentials(ctx: Context) -> None:
    """All credentials under the newest key."""
    keys = credential_keys()
    await for_every_organization(ctx, lambda slug: _rules().rotate_credentials(slug, keys))


if os.environ.get("SCHEDULES", "built-in") != "cronjobs":
    for kind, cron in SCHEDULES.items():
        tasks.schedules.define(kind, kind, cron)


def refs_of(project_id: int, build_id: int | None = None) -> dict[str, int]:
    """What operators find a job by."""
    return {"project": project_id} | ({} if build_id is None else {"build": build_id})
