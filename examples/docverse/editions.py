"""EditionService: points an edition to a build, one job at a time, and never back to older work."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - dataclasses are read at run time
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from examples.docverse.tables import Build, BuildObject, Edition, EditionBuildHistory, Organization, Project
from rowlock import newer_than

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from examples.docverse.services import Services
    from rowlock import Context, ItemContext


@dataclass(frozen=True)
class Choice:
    """A build for an edition. at: the creation of the build, or the moment in which a person ordered it."""

    build_id: int
    at: datetime


@dataclass(frozen=True)
class EditionService:
    """Updates of editions; the sessions and services are given by the factory."""

    sessions: async_sessionmaker[AsyncSession]
    services: Services

    async def update(self, ctx: Context | ItemContext, edition_id: int, choice: Choice) -> None:
        """Point the edition to the build; raises Skip if it has a newer one. A repetition changes nothing."""
        async with ctx.lock("edition", edition_id):
            async with self.sessions() as session:
                edition = await session.get_one(Edition, edition_id)
                project = await session.get_one(Project, edition.project_id)
                build = await session.get_one(Build, choice.build_id)
                current = await current_build(session, edition)
                place = await edition_path(session, edition, project)
            newer_than(choice.at, edition.chosen_at, by=f"build {current.public_id}" if current else None)
            if project.copy_mode:
                await self._copy(build, place)
            elif edition.build_id != build.id:
                await self.services.cdn.point(place, build.prefix)
            if edition.build_id != build.id:
                await self.services.cdn.purge(place)
            await self._record(ctx, edition_id, choice)
            await self.write_metadata(edition_id)

    async def _copy(self, build: Build, place: str) -> None:
        """Make the edition's objects those of the build: new and changed ones first, then what is gone."""
        async with self.sessions() as session:
            rows = await session.scalars(select(BuildObject).where(BuildObject.build_id == build.id))
            wanted = {row.key: row.content_hash for row in rows}
        there = {each.key.removeprefix(f"{place}/"): each for each in await self.services.store.list(f"{place}/")}
        for key, content_hash in sorted(wanted.items()):
            if key not in there or there[key].content_hash != content_hash:
                await self.services.store.copy(f"{build.prefix}{key}", f"{place}/{key}")
        await self.services.store.delete([there[key].key for key in sorted(there.keys() - wanted.keys())])

    async def _record(self, ctx: Context | ItemContext, edition_id: int, choice: Choice) -> None:
        """Commit choice and history only while this attempt holds its job; ClaimLost otherwise."""
        job = ctx.job.public_id
        row = {"edition_id": edition_id, "build_id": choice.build_id, "job_id": job, "attempt": ctx.job.runs}
        logged = insert(EditionBuildHistory).values(row)
        async with self.sessions() as session, session.begin(), ctx.guarded(session):
            edition = await session.get_one(Edition, edition_id)
            edition.build_id, edition.chosen_at = choice.build_id, choice.at
            await session.execute(logged.on_conflict_do_nothing(index_elements=["edition_id", "job_id"]))

    async def write_metadata(self, edition_id: int) -> None:
        """Write __editions/{slug}.json; call it with the edition's lock held."""
        async with self.sessions() as session:
            edition = await session.get_one(Edition, edition_id)
            project = await session.get_one(Project, edition.project_id)
            build = await current_build(session, edition)
            folder = await project_path(session, project)
        about = {
            "slug": edition.slug,
            "build": build.public_id if build else None,
            "deleted": bool(edition.date_deleted),
        }
        await self.services.store.put(f"{folder}/__editions/{edition.slug}.json", json.dumps(about))


async def current_build(session: AsyncSession, edition: Edition) -> Build | None:
    """The build that the edition shows; None: it is new."""
    return None if edition.build_id is None else await session.get_one(Build, edition.build_id)


async def project_path(session: AsyncSession, project: Project) -> str:
    """Where a project's dashboard lies in the object store, and its editions at the CDN."""
    org = await session.get_one(Organization, project.org_id)
    return f"{org.slug}/{project.slug}"


async def edition_path(session: AsyncSession, edition: Edition, project: Project) -> str:
    """Where readers find an edition."""
    return f"{await project_path(session, project)}/v/{edition.slug}"
