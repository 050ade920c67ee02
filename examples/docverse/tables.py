"""The application's own tables, beside Rowlock's in one database, and the view `queue_job` over the latter."""

from __future__ import annotations

import functools
from datetime import datetime  # noqa: TC003 - SQLAlchemy reads the annotations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import DateTime, ForeignKey, UniqueConstraint, func, make_url, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from examples.docverse.base32 import new_public_id

if TYPE_CHECKING:
    from rowlock import Rowlock

Moment = DateTime(timezone=True)
NOW: Final = func.clock_timestamp()
VIEW: Final = Path(__file__).with_name("queue_job.sql")


class Base(DeclarativeBase):
    """The tables of the application."""


class Organization(Base):
    """A tenant, with its rules. draft_days: a branch's edition without a build for so long is stale."""

    __tablename__ = "organization"

    id: Mapped[int] = mapped_column(primary_key=True)
    slug: Mapped[str] = mapped_column(unique=True)
    template_repository: Mapped[str | None]
    """Where the templates of its dashboards are kept on GitHub."""
    rewrite_rules: Mapped[list[list[str]]] = mapped_column(JSONB, default=lambda: [[r"tickets/(.+)", r"\1"]])
    """Pairs of pattern and slug: which edition a git ref makes."""
    draft_days: Mapped[int] = mapped_column(default=90)
    purgatory_days: Mapped[int] = mapped_column(default=30)
    delete_lost_refs: Mapped[bool] = mapped_column(default=True)
    """The rule `ref_deleted`: editions whose ref is gone are deleted; otherwise they are only flagged."""


class OrganizationCredential(Base):
    """A secret of an organisation, under the primary key of the time when it was last written."""

    __tablename__ = "organization_credentials"

    id: Mapped[int] = mapped_column(primary_key=True)
    org_id: Mapped[int] = mapped_column(ForeignKey("organization.id"))
    label: Mapped[str]
    encrypted_credential: Mapped[str]


class Project(Base):
    """A set of documentation. template_repository: instead of that of its organisation."""

    __tablename__ = "project"
    __table_args__ = (UniqueConstraint("org_id", "slug"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    org_id: Mapped[int] = mapped_column(ForeignKey("organization.id"))
    slug: Mapped[str]
    repository: Mapped[str]
    template_repository: Mapped[str | None]
    copy_mode: Mapped[bool] = mapped_column(default=False)
    """Editions are copies of a build's objects; otherwise pointers to them at the CDN."""


class Build(Base):
    """One upload of a project's documentation. Its objects lie under `prefix` in the object store."""

    __tablename__ = "build"

    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(unique=True, default=new_public_id)
    project_id: Mapped[int] = mapped_column(ForeignKey("project.id"), index=True)
    git_ref: Mapped[str]
    status: Mapped[str] = mapped_column(default="pending")
    """pending, uploaded, completed, completed_with_errors or failed."""
    prefix: Mapped[str]
    date_created: Mapped[datetime] = mapped_column(Moment, server_default=NOW)
    date_deleted: Mapped[datetime | None] = mapped_column(Moment)


class BuildObject(Base):
    """One object of a build, as the inventory found it."""

    __tablename__ = "build_object"

    build_id: Mapped[int] = mapped_column(ForeignKey("build.id"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    content_hash: Mapped[str]
    content_type: Mapped[str]
    size: Mapped[int]


class Edition(Base):
    """A name under which readers find a build, such as __main or v2.x."""

    __tablename__ = "edition"
    __table_args__ = (UniqueConstraint("project_id", "slug"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("project.id"))
    slug: Mapped[str]
    tracking: Mapped[str]
    """git_ref, semver_major or semver_minor."""
    tracked: Mapped[str]
    """The git ref, or the beginning of the version."""
    build_id: Mapped[int | None] = mapped_column(ForeignKey("build.id"))
    chosen_at: Mapped[datetime | None] = mapped_column(Moment)
    """Of which moment the choice of the build is: its creation, or a person's order. A newer choice wins."""
    ref_missing: Mapped[bool] = mapped_column(default=False)
    date_deleted: Mapped[datetime | None] = mapped_column(Moment)


class EditionBuildHistory(Base):
    """Each time that an edition got a build: once per job, however often that ran."""

    __tablename__ = "edition_build_history"
    __table_args__ = (UniqueConstraint("edition_id", "job_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    edition_id: Mapped[int] = mapped_column(ForeignKey("edition.id"))
    build_id: Mapped[int] = mapped_column(ForeignKey("build.id"))
    job_id: Mapped[str]
    attempt: Mapped[int]
    date_created: Mapped[datetime] = mapped_column(Moment, server_default=NOW)


@functools.cache
def sessions(tasks: Rowlock) -> async_sessionmaker[AsyncSession]:
    """Sessions on the database of the jobs, the embedded one included; one engine per process."""
    url = make_url(tasks.database_url).set(drivername="postgresql+psycopg")
    options: dict[str, Any] = {"pool_size": 5, "max_overflow": 15, "pool_pre_ping": True}
    return async_sessionmaker(create_async_engine(url, **options), expire_on_commit=False)


async def create_tables(tasks: Rowlock) -> None:
    """Create what is missing. Processes that start together do it one after the other."""
    async with tasks.lock("docverse", "tables"), sessions(tasks)() as session:
        await (await session.connection()).run_sync(Base.metadata.create_all)
        await session.execute(text(VIEW.read_text(encoding="utf-8")))
        await session.commit()
