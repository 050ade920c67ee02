"""The application's own tables, and its engine, which the jobs share."""

from __future__ import annotations

from datetime import date, datetime  # noqa: TC003 - SQLAlchemy reads the annotations
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from sqlalchemy import DateTime, ForeignKey, UniqueConstraint, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from examples.adventures.settings import settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SEARCH_PATH: Final = {"server_settings": {"search_path": "public"}}
"""Where the application's tables are, also for a role called rowlock: PostgreSQL would look into its schema first."""
engine: Final = create_async_engine(
    settings.database_url, pool_size=5, max_overflow=5, pool_pre_ping=True, connect_args=SEARCH_PATH
)
sessions: Final = async_sessionmaker(engine, expire_on_commit=False)


class Base(DeclarativeBase):
    """The tables of the application; migrations/ creates them."""


class Adventure(Base):
    """A story that a person reads and decides. status: awaiting_first_entry or active."""

    __tablename__ = "adventure"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    user_id: Mapped[UUID] = mapped_column(index=True)
    title: Mapped[str]
    language: Mapped[str]
    """The language that the person learns: the story's."""
    reads: Mapped[str]
    """The language that the person knows: the translation's."""
    status: Mapped[str] = mapped_column(default="awaiting_first_entry")
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class Entry(Base):
    """One part of an adventure. status: pending until its job is done, then complete, or error."""

    __tablename__ = "adventure_entry"
    __table_args__ = (UniqueConstraint("adventure_id", "number"),)

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    adventure_id: Mapped[UUID] = mapped_column(ForeignKey("adventure.id", ondelete="CASCADE"))
    number: Mapped[int]
    status: Mapped[str] = mapped_column(default="pending")
    error: Mapped[str | None]
    job_id: Mapped[str | None]
    """Public id of the job that makes it."""
    text: Mapped[str | None]
    words: Mapped[list[str] | None] = mapped_column(JSONB)


class Choice(Base):
    """One way to go on after an entry."""

    __tablename__ = "adventure_entry_choice"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    entry_id: Mapped[UUID] = mapped_column(ForeignKey("adventure_entry.id", ondelete="CASCADE"), index=True)
    number: Mapped[int]
    text: Mapped[str]


class Decision(Base):
    """The choice that a person took after an entry: one per entry."""

    __tablename__ = "adventure_entry_decision"

    entry_id: Mapped[UUID] = mapped_column(ForeignKey("adventure_entry.id", ondelete="CASCADE"), primary_key=True)
    choice_id: Mapped[UUID] = mapped_column(ForeignKey("adventure_entry_choice.id", ondelete="CASCADE"))
    decided_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class Translation(Base):
    """An entry in the language that the person knows."""

    __tablename__ = "adventure_entry_translation"

    entry_id: Mapped[UUID] = mapped_column(ForeignKey("adventure_entry.id", ondelete="CASCADE"), primary_key=True)
    language: Mapped[str]
    text: Mapped[str]


class Audio(Base):
    """Where the storage keeps an entry, read aloud."""

    __tablename__ = "adventure_entry_audio"

    entry_id: Mapped[UUID] = mapped_column(ForeignKey("adventure_entry.id", ondelete="CASCADE"), primary_key=True)
    key: Mapped[str]


class NewsDigest(Base):
    """The news of one day, in words that learners know."""

    __tablename__ = "news_digest"

    day: Mapped[date] = mapped_column(primary_key=True)
    text: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


async def open_session() -> AsyncIterator[AsyncSession]:
    """A session of one job. Its service commits."""
    async with sessions() as session:
        yield session


async def request_session() -> AsyncIterator[AsyncSession]:
    """A session of one request, committed when the route returns and rolled back when it raises."""
    async with sessions() as session, session.begin():
        yield session
