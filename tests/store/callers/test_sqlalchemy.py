from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from tests.store.callers.neighbours import dialect
from tests.waiting import in_time

from rowlock import ConfigurationError, InvalidOption, Rowlock, Task
from rowlock.store.callers.sqlalchemy import join, url_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url) as app:
        yield app


@pytest.fixture
def engine(database_url: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(dialect(database_url, "psycopg"))
    yield engine
    engine.dispose()


def greet(app: Rowlock) -> Task[[str], str]:
    @app.job
    async def greet(name: str) -> str:
        return name

    return greet


def joined(session: Session) -> tuple[Any, list[str]]:
    """A caller whose session has done something, and a list that fills when its callback runs."""
    session.execute(sqlalchemy.text("SELECT 1"))
    caller = join(session)
    assert caller is not None
    return caller, []


def test_after_commit_is_called_once_and_only_for_the_outermost_transaction(engine: sqlalchemy.Engine) -> None:
    with Session(engine) as session:
        caller, told = joined(session)
        assert caller.on_commit(lambda: told.append("first"))
        with session.begin_nested():
            assert caller.on_commit(lambda: told.append("nested"))
        assert told == []
        session.commit()
        assert told == ["first", "nested"]
        session.execute(sqlalchemy.text("SELECT 1"))
        session.commit()
        assert told == ["first", "nested"]


@pytest.mark.parametrize("ending", ["rollback", "close"])
def test_what_was_rolled_back_or_closed_is_forgotten(engine: sqlalchemy.Engine, ending: str) -> None:
    with Session(engine) as session:
        caller, told = joined(session)
        caller.on_commit(lambda: told.append("undone"))
        getattr(session, ending)()
        session.execute(sqlalchemy.text("SELECT 1"))
        caller.on_commit(lambda: told.append("kept"))
        session.commit()
        assert told == ["kept"]


def test_a_rolled_back_savepoint_does_not_silence_the_transaction(engine: sqlalchemy.Engine) -> None:
    with Session(engine) as session:
        caller, told = joined(session)
        caller.on_commit(lambda: told.append("outer"))
        session.begin_nested().rollback()
        session.commit()
        assert told == ["outer"]


def test_a_session_that_is_a_guest_in_a_connection_notifies_inside(engine: sqlalchemy.Engine) -> None:
    with engine.connect() as connection, connection.begin():
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            caller, told = joined(session)
            assert caller.on_commit(lambda: told.append("too early")) is False
            session.commit()
        assert told == []


@pytest.mark.parametrize("twophase", [False, True])
async def test_a_session_carries_the_wake_up_of_its_job_unless_it_commits_in_two_phases(
    app: Rowlock, engine: sqlalchemy.Engine, monkeypatch: pytest.MonkeyPatch, twophase: bool
) -> None:
    """PostgreSQL prepares no transaction that notifies. Nobody prepares one here: the session says that it might."""

    @app.job
    async def ping() -> None: ...

    listened: list[str] = []
    async with app.worker() as worker, app.database().connection() as other:
        assert worker is not None
        await in_time(worker._listener.listening.wait())
        await (await ping.enqueue()).wait(timeout=10)
        await other.add_listener(app.database().channel, lambda *message: listened.append(message[3]))
        with Session(engine) as session:
            session.connection()
            session.twophase = twophase
            with monkeypatch.context() as patched:
                patched.setattr(app._producer.wakers, "wake", lambda _: None)  # what follows the commit
                handle = await ping.options(session=session).enqueue()
                session.twophase = False
                session.commit()
        await handle.wait(timeout=10)
        await other.execute("SELECT 1")
    assert any('"wake"' in message and '"ping"' in message for message in listened) == (not twophase)


async def test_another_database_is_refused_by_name(app: Rowlock) -> None:
    other = sqlalchemy.create_engine("sqlite://")
    with Session(other) as session, pytest.raises(InvalidOption, match="belongs to sqlite"):
        greet(app).options(session=session).enqueue_sync("ada")
    other.dispose()


async def test_an_engine_is_no_transaction(app: Rowlock, engine: sqlalchemy.Engine) -> None:
    with pytest.raises(InvalidOption, match=r"got sqlalchemy\.engine\.base\.Engine"):
        await greet(app).options(connection=engine).enqueue("ada")


async def test_blocking_code_cannot_wait_for_an_async_session(app: Rowlock, database_url: str) -> None:
    engine = create_async_engine(dialect(database_url, "asyncpg"))
    async with AsyncSession(engine) as session:
        with pytest.raises(InvalidOption, match="AsyncSession, which is asynchronous"):
            greet(app).options(session=session).enqueue_sync("ada")
    await engine.dispose()


async def test_a_blocking_session_may_be_used_from_async_code(app: Rowlock, engine: sqlalchemy.Engine) -> None:
    with Session(engine) as session:
        job = await greet(app).options(session=session).enqueue("ada")
        session.commit()
    assert (await app.jobs.get(job.id)).args == {"name": "ada"}


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
async def test_an_engine_gives_the_application_its_url(database_url: str, driver: str) -> None:
    make: Any = create_async_engine if driver == "asyncpg" else sqlalchemy.create_engine
    engine = make(dialect(database_url, driver))
    async with Rowlock(engine=engine) as app:
        job = await greet(app).enqueue("ada")
        assert (await app.jobs.get(job.id)).state == "queued"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("postgresql+psycopg://ada:p%40ss@db:5433/shop", "postgresql://ada:p%40ss@db:5433/shop"),
        ("postgresql+asyncpg://db/shop?ssl=require", "postgresql://db/shop?sslmode=require"),
        ("postgresql://db/shop?connect_timeout=3&sslrootcert=x", "postgresql://db/shop?sslrootcert=x"),
        ("postgresql+psycopg://u@/shop?host=a:1&host=b:2", "postgresql://u@/shop?host=a%3A1%2Cb%3A2"),
    ],
)
def test_the_url_keeps_what_every_driver_understands(given: str, expected: str) -> None:
    engine = create_async_engine(given) if "asyncpg" in given else sqlalchemy.create_engine(given)
    assert url_of(engine) == expected


def test_an_engine_of_another_database_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="this one is for sqlite"):
        Rowlock(engine=sqlalchemy.create_engine("sqlite://"))


def test_an_engine_and_a_url_are_one_too_many() -> None:
    with pytest.raises(ConfigurationError, match="both given"):
        Rowlock("postgresql://db/shop", engine=object())


def test_something_else_is_no_engine() -> None:
    with pytest.raises(ConfigurationError, match=r"takes a SQLAlchemy Engine or AsyncEngine; got builtins\.str"):
        Rowlock(engine="postgresql://db/shop")
