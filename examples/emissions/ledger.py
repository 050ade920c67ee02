"""The application's own tables, on the database of the jobs: uploads, activities, factors, units, totals."""

from __future__ import annotations

import functools
from datetime import date, datetime  # noqa: TC003 - SQLAlchemy reads the annotations
from decimal import Decimal  # noqa: TC003 - as above
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    BigInteger,
    DateTime,
    ForeignKey,
    Identity,
    Numeric,
    create_engine,
    delete,
    func,
    insert,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from examples.emissions.activity_csv import Activity, ActivityFile
from examples.emissions.factors import Factor, Factors
from examples.emissions.units import Unit, Units

if TYPE_CHECKING:
    from examples.emissions.inventory import Inventory
    from examples.emissions.registry import Publication
    from rowlock import Rowlock

_POOL: Final[dict[str, Any]] = {"pool_size": 4, "max_overflow": 6, "pool_pre_ping": True}


class Base(DeclarativeBase):
    """The tables of the application."""


class Organisation(Base):
    """Whose emissions are calculated. run: the workflow that was started last for it."""

    __tablename__ = "organisation"

    name: Mapped[str] = mapped_column(primary_key=True)
    run: Mapped[int | None] = mapped_column(BigInteger)


class Upload(Base):
    """A file as it came, so that any pod can read it."""

    __tablename__ = "upload"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    organisation: Mapped[str] = mapped_column(ForeignKey("organisation.name"))
    file: Mapped[str]
    content: Mapped[str]
    uploaded_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class ActivityRow(Base):
    """A line of a file. A file that is uploaded again under its name replaces its lines."""

    __tablename__ = "activity"

    organisation: Mapped[str] = mapped_column(ForeignKey("organisation.name"), primary_key=True)
    file: Mapped[str] = mapped_column(primary_key=True)
    line: Mapped[int] = mapped_column(primary_key=True)
    day: Mapped[date]
    site: Mapped[str]
    activity: Mapped[str]
    quantity: Mapped[Decimal] = mapped_column(Numeric)
    unit: Mapped[str]


class FactorRow(Base):
    """A factor as the registry published it."""

    __tablename__ = "factor"

    activity: Mapped[str] = mapped_column(primary_key=True)
    valid_from: Mapped[date] = mapped_column(primary_key=True)
    valid_until: Mapped[date | None]
    scope: Mapped[int]
    unit: Mapped[str]
    kg_co2e: Mapped[Decimal] = mapped_column(Numeric)


class UnitRow(Base):
    """A unit as the registry published it."""

    __tablename__ = "unit"

    symbol: Mapped[str] = mapped_column(primary_key=True)
    dimension: Mapped[str]
    in_base: Mapped[Decimal] = mapped_column(Numeric)


class Known(Base):
    """Which version of a publication the tables above hold."""

    __tablename__ = "known"

    publication: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[str]


class Total(Base):
    """The emissions of an organisation in one year and scope. job: which job wrote it."""

    __tablename__ = "total"

    organisation: Mapped[str] = mapped_column(ForeignKey("organisation.name"), primary_key=True)
    year: Mapped[int] = mapped_column(primary_key=True)
    scope: Mapped[int] = mapped_column(primary_key=True)
    kg_co2e: Mapped[Decimal] = mapped_column(Numeric)
    lines: Mapped[int]
    job: Mapped[str]


@functools.cache
def sessions(tasks: Rowlock) -> sessionmaker[Session]:
    """Blocking sessions, for handlers in threads and child processes; one engine per process."""
    url = make_url(tasks.database_url).set(drivername="postgresql+psycopg")
    return sessionmaker(create_engine(url, **_POOL), expire_on_commit=False)


@functools.cache
def async_sessions(tasks: Rowlock) -> async_sessionmaker[AsyncSession]:
    """Sessions of the event loop, for requests."""
    url = make_url(tasks.database_url).set(drivername="postgresql+psycopg")
    return async_sessionmaker(create_async_engine(url, **_POOL), expire_on_commit=False)


def create_tables(tasks: Rowlock) -> None:
    """Create what is missing. Pods that start together do it one after the other."""
    with tasks.lock_sync("emissions", "tables"), sessions(tasks)() as session:
        Base.metadata.create_all(session.connection())
        session.commit()


def replace_file(session: Session, organisation: str, file: str, read: ActivityFile) -> None:
    """Put the lines of a file in the place of those that it had."""
    session.execute(delete(ActivityRow).where(ActivityRow.organisation == organisation, ActivityRow.file == file))
    rows = [{"organisation": organisation, **vars(activity)} for activity in read.activities]
    if rows:
        session.execute(insert(ActivityRow), rows)


def known_version(session: Session, publication: str) -> str | None:
    """The version that the tables hold; None: nothing yet."""
    return session.scalar(select(Known.version).where(Known.publication == publication))


def replace_publication(session: Session, name: str, new: Publication) -> None:
    """Put what the registry publishes in the place of what it published before."""
    table = FactorRow if name == "factors" else UnitRow
    # Pipelines of several organisations may bring the same news.
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": name})
    session.execute(delete(table))
    session.execute(insert(table), new.records)
    row = {"publication": name, "version": new.version}
    session.execute(upsert(Known).values(row).on_conflict_do_update(index_elements=["publication"], set_=row))


def read_factors(session: Session) -> Factors:
    """Every factor."""
    return Factors(
        Factor(row.activity, row.scope, row.unit, row.kg_co2e, row.valid_from, row.valid_until)
        for row in session.scalars(select(FactorRow))
    )


def read_units(session: Session) -> Units:
    """Every unit."""
    return {row.symbol: Unit(row.symbol, row.dimension, row.in_base) for row in session.scalars(select(UnitRow))}


def read_activities(session: Session, organisation: str) -> list[Activity]:
    """Every line of an organisation, file by file."""
    row = ActivityRow
    columns = (row.file, row.line, row.day, row.site, row.activity, row.quantity, row.unit)
    found = session.execute(select(*columns).where(row.organisation == organisation).order_by(row.file, row.line))
    return [Activity(*each) for each in found.tuples()]


def replace_totals(session: Session, organisation: str, inventory: Inventory, job: str) -> None:
    """Put these totals in the place of those before."""
    session.execute(delete(Total).where(Total.organisation == organisation))
    rows = [
        {"organisation": organisation, "year": year, "scope": scope, "kg_co2e": kg, "job": job}
        | {"lines": inventory.lines[year, scope]}
        for (year, scope), kg in inventory.kg_co2e.items()
    ]
    if rows:
        session.execute(insert(Total), rows)
