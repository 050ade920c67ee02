"""The application's own tables: people, documents, the graph, its vocabulary, artifacts and proposals."""

from __future__ import annotations

import functools
from datetime import datetime  # noqa: TC003 - SQLAlchemy reads the annotations
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import DateTime, ForeignKey, MetaData, String, create_engine, func, make_url
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from sqlalchemy.pool import NullPool

if TYPE_CHECKING:
    from rowlock import Rowlock

SCHEMA: Final = "kg"
POOL: Final = 4
"""Connections of the application in one process, beside those of Rowlock."""


class Base(DeclarativeBase):
    """The tables of the application."""

    metadata = MetaData(schema=SCHEMA)


class Person(Base):
    """A user. key_hash: of the secret that a browser or program shows."""

    __tablename__ = "people"

    name: Mapped[str] = mapped_column(primary_key=True)
    key_hash: Mapped[str] = mapped_column(unique=True)
    roles: Mapped[list[str]] = mapped_column(ARRAY(String))
    """Names of roles: the application's own, or those of the schema, such as platform_admin."""


class Document(Base):
    """A text that was submitted, or what an image was described as."""

    __tablename__ = "documents"

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    text: Mapped[str]
    vector: Mapped[list[float] | None] = mapped_column(JSONB(none_as_null=True))


class Concept(Base):
    """A node. mentions: in how many chunks it was found."""

    __tablename__ = "concepts"

    label: Mapped[str] = mapped_column(primary_key=True)
    vector: Mapped[list[float]] = mapped_column(JSONB)
    mentions: Mapped[int] = mapped_column(default=1)
    topic: Mapped[str | None]
    """The group that an executed proposal has put it in."""


class RelationType(Base):
    """A word of the vocabulary. vector: None until vocab_refresh has embedded it."""

    __tablename__ = "relation_types"

    name: Mapped[str] = mapped_column(primary_key=True)
    vector: Mapped[list[float] | None] = mapped_column(JSONB(none_as_null=True))
    certainty: Mapped[float] = mapped_column(default=0.0)
    """Measured by epistemic_remeasurement."""


class Edge(Base):
    """A relation between two concepts. mentions: how often it was found."""

    __tablename__ = "edges"

    source: Mapped[str] = mapped_column(ForeignKey(Concept.label, ondelete="CASCADE"), primary_key=True)
    relation: Mapped[str] = mapped_column(ForeignKey(RelationType.name, onupdate="CASCADE"), primary_key=True)
    target: Mapped[str] = mapped_column(ForeignKey(Concept.label, ondelete="CASCADE"), primary_key=True)
    mentions: Mapped[int] = mapped_column(default=1)


class Artifact(Base):
    """What a maintenance job has made: a projection or a backup. One per job."""

    __tablename__ = "artifacts"

    job_id: Mapped[str] = mapped_column(primary_key=True)
    sort: Mapped[str]
    content: Mapped[dict[str, Any]] = mapped_column(JSONB)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class Proposal(Base):
    """A topic that annealing proposes. executed_at: when proposal_execution has applied it."""

    __tablename__ = "proposals"

    id: Mapped[int] = mapped_column(primary_key=True)
    topic: Mapped[str]
    concepts: Mapped[list[str]] = mapped_column(ARRAY(String))
    executed_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


@functools.cache
def sessions(tasks: Rowlock, *, pooled: bool = True) -> sessionmaker[Session]:
    """Sessions on the database of the jobs. pooled=False: no connection is held between two of them."""
    url = make_url(tasks.database_url).set(drivername="postgresql+psycopg")
    options: dict[str, Any] = {"pool_size": POOL, "max_overflow": 0, "pool_pre_ping": True}
    if not pooled:
        options = {"poolclass": NullPool}
    engine = create_engine(url, connect_args={"application_name": "knowledge_graph"}, **options)
    return sessionmaker(engine, expire_on_commit=False)
