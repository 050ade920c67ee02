"""One job at a time, through the real database. Keys and bulks have files of their own."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from pydantic import BaseModel, SecretStr
from tests.store.callers.neighbours import NEIGHBOURS, neighbour

from rowlock import (
    ArgumentsTooLarge,
    ConfigurationError,
    DatabaseUnreachable,
    Gate,
    InvalidArguments,
    InvalidOption,
    Rowlock,
    SchemaMissing,
    Settings,
    Task,
    UnknownKind,
    chain,
)
from rowlock.store.jobs.enqueue import PLAIN
from rowlock.store.queries import Statements
from rowlock.telemetry import JobEnqueued

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Colour(Enum):
    RED = "red"


class Address(BaseModel):
    street: str
    zip: int


@dataclass
class Parcel:
    to: Address
    weight: Decimal


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url) as app:
        yield app


@pytest.fixture
async def raw(database_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


def greet(app: Rowlock) -> Task[[str], str]:
    @app.job
    async def greet(name: str) -> str:
        return name

    return greet


async def test_arguments_of_every_type_arrive_as_they_were_given(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    arrived: dict[str, Any] = {}

    @app.job
    async def pack(  # noqa: PLR0917 - one of each
        parcel: Parcel,
        order: uuid.UUID,
        at: datetime,
        price: Decimal,
        colour: Colour,
        label: bytes,
        key: SecretStr,
        after: timedelta,
        *,
        notes: list[str | None],
        nothing: int | None = None,
    ) -> Parcel:
        arrived.update(locals())
        return parcel

    given: dict[str, Any] = {
        "parcel": Parcel(Address(street="Ω \U0001f600 'quoted\"", zip=1), Decimal("1.10")),
        "order": uuid.UUID(int=7),
        "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        "price": Decimal("19.990"),
        "colour": Colour.RED,
        "label": bytes(range(256)),
        "key": SecretStr("hunter2hunter2"),
        "after": timedelta(days=1, microseconds=3),
        "notes": ["a", None, ""],
    }
    async with app.worker():
        job = await pack.enqueue(**given)
        assert await job.wait(timeout=20) == given["parcel"]
    assert {name: arrived[name] for name in given} == given
    assert arrived["nothing"] is None
    # The store holds the secret for the worker; whoever looks sees a mask, and defaults are not stored.
    stored = await app.jobs.get(job.id)
    assert stored.args["key"] == "•••"
    assert "nothing" not in stored.args
    assert json.loads(await raw.fetchval("SELECT args->'key' FROM rowlock.jobs")) == {"$secret": "hunter2hunter2"}


async def test_a_job_has_the_defaults_of_its_kind(app: Rowlock) -> None:
    @app.job("mail.send", priority=5, expires_in="1h", max_age="2h", gate=Gate("smtp", 3), refs=lambda to: {"to": to})
    async def send(to: str) -> None: ...

    job = await app.jobs.get((await send.enqueue("ada")).id)
    assert (job.kind, job.priority, job.gate_key, job.refs) == ("mail.send", 5, "smtp", {"to": "ada"})
    assert job.expires_at == job.run_after + timedelta(hours=1)
    assert job.too_old_at is not None
    assert abs(job.too_old_at - job.created_at - timedelta(hours=2)) < timedelta(seconds=1)
    other = await app.jobs.get((await send.options(priority=-5, gate="other", refs={"to": "bob"}).enqueue("ada")).id)
    assert (other.priority, other.gate_key, other.refs) == (-5, "other", {"to": "bob"})


async def test_the_database_clock_decides_when_a_job_is_due(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    task = greet(app)
    before = await raw.fetchval("SELECT clock_timestamp()")
    plain = await app.jobs.get((await task.enqueue("now")).id)
    past = await app.jobs.get((await task.options(run_at=datetime(2000, 1, 1, tzinfo=UTC)).enqueue("past")).id)
    later = await app.jobs.get((await task.options(run_in=90).enqueue("later")).id)
    after = await raw.fetchval("SELECT clock_timestamp()")
    moment = after + timedelta(days=3)
    fixed = await app.jobs.get((await task.options(run_at=moment, expires_in="5m").enqueue("fixed")).id)
    assert before <= plain.run_after <= past.run_after <= after
    assert before <= later.run_after - timedelta(seconds=90) <= after
    assert (fixed.run_after, fixed.expires_at) == (moment, moment + timedelta(minutes=5))


async def test_a_place_in_the_queue_is_the_moment_of_the_enqueue_not_of_the_transactions_start(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    task = greet(app)
    async with raw.transaction():
        begun = await raw.fetchval("SELECT now()")
        first = await task.options(connection=raw).enqueue("first")
        second = await task.options(connection=raw).enqueue("second")
    jobs = await app.jobs.many([first.id, second.id])
    assert begun < jobs[0].run_after < jobs[1].run_after


async def test_refs_and_tags_are_searchable_rows(app: Rowlock, raw: asyncpg.Connection[asyncpg.Record]) -> None:
    refs = {"project": 7, "slug": "docs", "draft": True, "none": None}
    job = await greet(app).options(refs=refs, tags=["blue", "blue", "urgent"]).enqueue("ada")
    rows = await raw.fetch("SELECT name, value, job_id FROM rowlock.job_refs ORDER BY 1, 2")
    assert [tuple(row) for row in rows] == [
        (name, value, job.id)
        for name, value in [
            ("draft", "true"),
            ("project", "7"),
            ("slug", "docs"),
            ("tag", "blue"),
            ("tag", "urgent"),
        ]
    ]
    stored = await app.jobs.get(job.id)
    assert (stored.refs, stored.tags) == (refs, ("blue", "blue", "urgent"))


async def test_a_call_may_demand_approval_and_never_waive_it(app: Rowlock) -> None:
    @app.job(approval=True)
    async def wipe() -> None: ...

    asked = await greet(app).options(approval=True).enqueue("ada")
    kept = await wipe.options(approval=False).enqueue()
    assert [job.state for job in await app.jobs.many([asked.id, kept.id])] == ["pending", "pending"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run_at": datetime(2026, 1, 1)}, "run_at must be a datetime with a time zone"),  # noqa: DTZ001 - the point
        ({"run_at": "tomorrow"}, "run_at must be a datetime with a time zone; got 'tomorrow'"),
        ({"run_at": datetime.now(UTC), "run_in": 5}, "run_at and run_in were both given"),
        ({"priority": 101}, "priority must be a whole number from -100 to 100, higher first; got 101"),
        ({"priority": True}, "priority must be a whole number"),
        ({"priority": 1.5}, r"got 1\.5"),
        ({"max_attempts": 0}, "max_attempts must be a whole number from 1 to 32767; got 0"),
        ({"run_in": "soon"}, "run_in"),
        ({"run_in": -1}, "run_in"),
        ({"unique_key": ""}, "unique_key must be a text of 1 to 1000 bytes"),
        ({"unique_key": "a\x00b"}, "without NUL"),
        ({"unique_key": "k", "on_conflict": "ignore"}, 'on_conflict must be "reject", "keep", "replace" or "debounce"'),
        ({"unique_key": "k", "unique_scope": "dead"}, "unique_scope must be"),
        ({"unique_key": "k", "on_conflict": "debounce"}, "Pass run_in"),
        ({"tags": "blue"}, "tags must be a list of strings; got 'blue'"),
        ({"tags": [1]}, "tags must be a text"),
        ({"tenant": 7}, "tenant must be a text"),
    ],
)
async def test_an_impossible_option_is_refused_with_a_reason(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        greet(Rowlock("postgresql://nowhere/x")).options(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"refs": {"x": object()}}, "refs must be a mapping of JSON values"),
        ({"refs": {"x": "y" * 3000}}, "refs must"),
        ({"meta": {"x": float("nan")}}, "meta must be a mapping of JSON values"),
        ({"meta": {"x": "a\x00b"}}, "meta must be values without NUL"),
        ({"unique_key": lambda name: 7}, "unique_key must be a text"),  # noqa: ARG005
        ({"gate": lambda name: ""}, "gate must be a text"),  # noqa: ARG005
    ],
)
async def test_options_that_depend_on_the_call_are_refused_by_it(
    app: Rowlock, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        await greet(app).options(**options).enqueue("ada")
    assert await app.jobs.list() == []


async def test_keys_and_gates_see_defaults_too(app: Rowlock) -> None:
    @app.job(gate=lambda name, shout: f"gate-{name}-{shout}", refs=lambda name, shout: {"who": name, "shout": shout})
    async def call(name: str, shout: bool = False) -> None: ...

    bound = call.options(unique_key=lambda name, shout: f"{name}-{shout}")
    job = await app.jobs.get((await bound.enqueue("ada")).id)
    (bulk,) = await bound.enqueue_many([{"name": "bob"}])
    assert (job.gate_key, job.unique_key, job.refs) == (
        "gate-ada-False",
        "call:ada-False",
        {"who": "ada", "shout": False},
    )
    assert (await app.jobs.get(bulk.id)).unique_key == "call:bob-False"


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (
            (),
            {},
            r"argument 'name' is missing; it should be str in greet\(name: str\) -> str|argument 'name' is missing",
        ),
        ((7,), {}, "argument 'name' should fit name: str, got 7"),
        ((), {"nme": "ada"}, "there is no argument 'nme' in greet.*Did you mean 'name'"),
        (("a", "b"), {}, "takes at most 1 positional arguments, got 2"),
        (("a",), {"name": "b"}, "got argument 'name' twice"),
    ],
)
async def test_wrong_arguments_are_refused_with_the_signature(
    args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArguments, match=message):
        await greet(Rowlock("postgresql://nowhere/x")).enqueue(*args, **kwargs)


async def test_arguments_over_the_limit_are_refused(database_url: str) -> None:
    app = Rowlock(settings=Settings(database_url=database_url, args_limit=100))
    with pytest.raises(ArgumentsTooLarge, match=r"the arguments take 1,011 bytes, the limit is 100\. Store"):
        await greet(app).enqueue("x" * 1000)


def test_an_unknown_kind_is_named_with_its_neighbours() -> None:
    app = Rowlock("postgresql://nowhere/x")
    with pytest.raises(UnknownKind, match="no kind is registered"):
        app.task("greet")
    task = greet(app)
    assert app.task("greet") is task
    with pytest.raises(UnknownKind, match=r"There is no kind 'gret'; known are greet\. Did you mean 'greet'\?"):
        app.task("gret")


def test_a_kind_declared_twice_is_refused() -> None:
    app = Rowlock("postgresql://nowhere/x")
    greet(app)

    async def other() -> None: ...

    with pytest.raises(ConfigurationError, match="The kind 'greet' is declared twice"):
        app.job("greet")(other)


@pytest.mark.parametrize("says", [{"priority": 200}, {"on_worker_lost": "cry"}, {"colour": "red"}, {"timeout": "x"}])
def test_a_kind_with_impossible_properties_is_refused(says: dict[str, Any]) -> None:
    app: Any = Rowlock("postgresql://nowhere/x")

    async def work() -> None: ...

    with pytest.raises((ConfigurationError, InvalidOption), match=next(iter(says))):
        app.job(**says)(work)


async def test_an_unreachable_database_is_named_without_its_password() -> None:
    app = Rowlock("postgresql://ada:hunter2@127.0.0.1:1/shop")
    with pytest.raises(DatabaseUnreachable, match=r"127\.0\.0\.1:1/shop cannot be reached.*Is it running") as caught:
        await greet(app).enqueue("ada")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(DatabaseUnreachable):
        greet(app).enqueue_sync("ada")
    await app.close()


async def test_missing_tables_are_named_with_the_command_that_creates_them(empty_database_url: str) -> None:
    async with Rowlock(empty_database_url) as app:
        with pytest.raises(SchemaMissing, match=r"not in schema 'rowlock' of this database.*rowlock schema upgrade"):
            await greet(app).enqueue("ada")


@pytest.mark.parametrize("name", sorted(NEIGHBOURS.keys() - {"session-pg8000"}))
async def test_missing_tables_are_named_in_a_joined_transaction_too(name: str, empty_database_url: str) -> None:
    async with Rowlock(empty_database_url) as app, neighbour(name, empty_database_url) as caller:
        with pytest.raises(SchemaMissing, match="rowlock schema upgrade"):
            await caller.enqueue(greet(app), "ada")


def test_the_values_of_a_plain_job_are_in_the_order_of_its_statement() -> None:
    assert Statements("rowlock")["enqueue_plain"].parameters == ("args", *PLAIN)


async def test_what_a_caller_changes_between_two_calls_counts(app: Rowlock) -> None:
    @app.job
    async def note(number: int) -> None: ...

    meta, tags = {"step": 1}, ["first"]
    bound = note.options(meta=meta, tags=tags)
    first = await bound.enqueue(number=1)
    meta["step"] = 2
    tags[0] = "second"
    second = await bound.enqueue(number=2)
    stored = [await app.jobs.get(job.id) for job in (first, second)]
    assert [(dict(job.meta or {}), list(job.tags or ())) for job in stored] == [
        ({"step": 1}, ["first"]),
        ({"step": 2}, ["second"]),
    ]


async def test_a_plain_job_and_one_with_times_have_the_same_row(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record]
) -> None:
    @app.job(priority=3)
    async def note(number: int) -> None: ...

    options: dict[str, Any] = {"tenant": "acme", "submitted_by": "ann", "meta": {"a": 1}, "max_attempts": 2}
    plain = await note.options(**options).enqueue(number=1)
    timed = await note.options(**options, run_in="0s").enqueue(number=1)
    rows = [
        dict(await raw.fetchrow("SELECT * FROM rowlock.jobs WHERE id = $1", job.id) or {}) for job in (plain, timed)
    ]
    differ = {"id", "run_after", "created_at"}
    kept = [{name: value for name, value in row.items() if name not in differ} for row in rows]
    assert kept[0] == kept[1]
    assert all(row["run_after"] for row in rows)


async def test_every_way_to_enqueue_emits_one_event_per_job(
    app: Rowlock, raw: asyncpg.Connection[asyncpg.Record], database_url: str
) -> None:
    events: list[JobEnqueued] = []
    app.listen(JobEnqueued)(events.append)
    task = greet(app)
    handles = [
        await task.enqueue("one"),
        await asyncio.to_thread(task.enqueue_sync, "two"),
        *await task.enqueue_many([{"name": "three"}, {"name": "four"}]),
        *await task.options(unique_key=lambda name: name).enqueue_many([{"name": "five"}]),
        await task.options(unique_key="five", on_conflict="keep").enqueue("six"),
    ]
    async with raw.transaction():
        handles.append(await task.options(connection=raw).enqueue("seven"))
        handles += await task.options(connection=raw).enqueue_many([{"name": "eight"}])
    assert [(event.job_id, event.kind, event.what) for event in events] == [
        (job.id, "greet", job.what) for job in handles
    ]
    assert [job.what for job in handles].count("kept") == 1
    events.clear()
    started = await chain(task, task).enqueue("nine")
    assert {event.job_id for event in events} == set(started.jobs.values())
    async with app.worker():  # registers the kind
        pass
    async with Rowlock(database_url) as other:
        remote: list[JobEnqueued] = []
        other.listen(JobEnqueued)(remote.append)
        made = await other.jobs.submit("greet", {"name": "ten"})
        assert [(event.job_id, event.what) for event in remote] == [(made.job.id, "created")]
