"""The application's own table: one row per generated ontology, for the page Review ontologies."""

from __future__ import annotations

import functools
from datetime import datetime  # noqa: TC003 - SQLAlchemy reads the annotations
from typing import TYPE_CHECKING, Any

from sqlalchemy import DateTime, create_engine, func, make_url
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

if TYPE_CHECKING:
    from rowlock import Rowlock


class Base(DeclarativeBase):
    """The tables of the application."""


class Ontology(Base):
    """What a run published. job_id: its job, of which one run at most is published."""

    __tablename__ = "ontology"

    job_id: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[str]
    """The job and the number of its run: which attempt wrote this row."""
    name: Mapped[str]
    concepts: Mapped[list[str]] = mapped_column(JSONB)
    relations: Mapped[list[str]] = mapped_column(JSONB)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    verdict: Mapped[str | None]
    """accepted or rejected; None: nobody has reviewed it."""
    reviewed_by: Mapped[str | None]


@functools.cache
def sessions(tasks: Rowlock) -> sessionmaker[Session]:
    """Sessions on the database of the jobs, the embedded one included; one engine per process."""
    url = make_url(tasks.database_url).set(drivername="postgresql+psycopg")
    options: dict[str, Any] = {"pool_size": 2, "max_overflow": 3, "pool_pre_ping": True}
    return sessionmaker(create_engine(url, **options), expire_on_commit=False)


def create_tables(tasks: Rowlock) -> None:
    """Create what is missing. Pods that start together do it one after the other."""
    with tasks.lock_sync("ontology", "tables"), sessions(tasks)() as session:
        Base.metadata.create_all(session.connection())
        session.commit()
