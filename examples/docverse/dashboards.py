"""DashboardService: the pages of a project that list its editions, and the templates that they are made of."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from examples.docverse.editions import project_path
from examples.docverse.stand_in import TEMPLATE
from examples.docverse.tables import Build, Edition, Organization, Project

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from examples.docverse.editions import EditionService
    from examples.docverse.services import Services
    from rowlock import Context, ItemContext

_PAGE: Final = "dashboard.html"


@dataclass(frozen=True)
class DashboardService:
    """Renders dashboards. Two renders of a project never mix, and the last one shows the database as it is."""

    sessions: async_sessionmaker[AsyncSession]
    services: Services
    editions: EditionService

    async def render(self, ctx: Context | ItemContext, project_id: int) -> None:
        """Write the files of the project under its lock, then those of each edition under the edition's."""
        async with ctx.lock("project", project_id):
            async with self.sessions() as session:
                project = await session.get_one(Project, project_id)
                folder, template = await project_path(session, project), await self._template(session, project)
                rows = await _current(session, project_id)
            lines = "\n".join(f"<li>{html.escape(slug)}: build {build}</li>" for slug, build in rows)
            page = template.replace("{project}", html.escape(project.slug)).replace("{editions}", lines)
            switcher = [{"slug": slug, "build": build} for slug, build in rows]
            await self.services.store.put(f"{folder}/__dashboard.html", page)
            await self.services.store.put(f"{folder}/__404.html", f"<p>There is no such page.</p>\n{page}")
            await self.services.store.put(f"{folder}/__switcher.json", json.dumps(switcher))
        async with self.sessions() as session:
            ids = (await session.scalars(select(Edition.id).where(Edition.project_id == project_id))).all()
        for edition_id in ids:
            async with ctx.lock("edition", edition_id):
                await self.editions.write_metadata(edition_id)

    async def sync_templates(self, repository: str) -> None:
        """Copy the templates of a repository to the object store."""
        for name, content in (await self.services.github.templates(repository)).items():
            await self.services.store.put(f"__templates/{repository}/{name}", content)

    async def _template(self, session: AsyncSession, project: Project) -> str:
        """The project's own template, else that of its organisation, else the one that comes with the application."""
        org = await session.get_one(Organization, project.org_id)
        repository = project.template_repository or org.template_repository
        key = f"__templates/{repository}/{_PAGE}"
        if repository is None or not await self.services.store.list(key):
            return TEMPLATE
        return await self.services.store.get(key)


async def _current(session: AsyncSession, project_id: int) -> list[tuple[str, str]]:
    """The live editions of a project, each with its build."""
    found = await session.execute(
        select(Edition.slug, Build.public_id)
        .join(Build, Build.id == Edition.build_id)
        .where(Edition.project_id == project_id, Edition.date_deleted.is_(None))
        .order_by(Edition.slug)
    )
    return [(slug, build) for slug, build in found]
