"""What the periodic jobs do for one organisation: lifecycle rules, the audit of git refs, purgatory, credentials."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import Select, func, select, update

from examples.docverse.tables import NOW, Build, Edition, Organization, OrganizationCredential, Project
from examples.docverse.tracking import MAIN

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from examples.docverse.services import Services

PURGATORY: Final = "__purgatory"


@dataclass(frozen=True)
class OrganizationRules:
    """The rules of organisations. Each may be applied again at any time: what is done stays done."""

    sessions: async_sessionmaker[AsyncSession]
    services: Services

    async def all(self) -> list[str]:
        """The slugs of all organisations."""
        async with self.sessions() as session:
            return list(await session.scalars(select(Organization.slug).order_by(Organization.slug)))

    async def evaluate_lifecycle(self, slug: str) -> None:
        """Delete stale drafts, then builds that no edition shows; their objects go to purgatory."""
        async with self.sessions() as session, session.begin():
            org = await _organization(session, slug)
            since = func.now() - timedelta(days=org.draft_days)
            await session.execute(
                update(Edition)
                .where(Edition.project_id.in_(_projects(org)), Edition.slug != MAIN, Edition.tracking == "git_ref")
                .where(Edition.date_deleted.is_(None), Edition.chosen_at < since)
                .values(date_deleted=NOW)
            )
            shown = select(Edition.build_id).where(Edition.date_deleted.is_(None), Edition.build_id.is_not(None))
            orphans = select(Build).where(Build.project_id.in_(_projects(org)), Build.id.not_in(shown))
            builds = await session.scalars(orphans.where(Build.date_deleted.is_(None), Build.date_created < since))
            for build in builds:
                await self._to_purgatory(build.prefix)
                build.date_deleted = datetime.now(UTC)

    async def _to_purgatory(self, prefix: str) -> None:
        there = await self.services.store.list(prefix)
        for each in there:
            await self.services.store.copy(each.key, f"{PURGATORY}/{each.key}")
        await self.services.store.delete([each.key for each in there])

    async def audit_refs(self, slug: str) -> None:
        """Flag editions whose ref is gone from GitHub; delete them if the organisation's rule says so."""
        async with self.sessions() as session, session.begin():
            org = await _organization(session, slug)
            for project in (await session.scalars(select(Project).where(Project.org_id == org.id))).all():
                refs = set(await self.services.github.refs(project.repository))
                editions = await session.scalars(
                    select(Edition).where(Edition.project_id == project.id, Edition.tracking == "git_ref")
                )
                for edition in editions:
                    edition.ref_missing = edition.tracked not in refs
                    if edition.ref_missing and org.delete_lost_refs and edition.date_deleted is None:
                        edition.date_deleted = datetime.now(UTC)

    async def clean_purgatory(self, slug: str) -> None:
        """Delete for good what has been in purgatory for longer than the organisation keeps it."""
        async with self.sessions() as session:
            org = await _organization(session, slug)
        limit = datetime.now(UTC) - timedelta(days=org.purgatory_days)
        there = await self.services.store.list(f"{PURGATORY}/{slug}/")
        await self.services.store.delete([each.key for each in there if each.stored_at < limit])

    async def rotate_credentials(self, slug: str, keys: MultiFernet) -> None:
        """Encrypt every credential under the primary key; Fernet does not say which key one has, so all of them."""
        async with self.sessions() as session, session.begin():
            org = await _organization(session, slug)
            mine = OrganizationCredential.org_id == org.id
            for each in (await session.scalars(select(OrganizationCredential).where(mine))).all():
                each.encrypted_credential = keys.rotate(each.encrypted_credential.encode()).decode()


async def _organization(session: AsyncSession, slug: str) -> Organization:
    return (await session.scalars(select(Organization).where(Organization.slug == slug))).one()


def _projects(org: Organization) -> Select[int]:
    return select(Project.id).where(Project.org_id == org.id)
