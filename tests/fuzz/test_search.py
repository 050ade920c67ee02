"""Searches: trees rendered and read again, garbage, and what is found compared with an oracle in plain Python."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz.conftest import Bench, is_clear
from tests.fuzz.profile import PATIENCE, tried
from tests.fuzz.strange import TEXTS

from rowlock.errors import InvalidId, InvalidSearch
from rowlock.model import ids
from rowlock.model.search import NUMBERS, TIMES, Query, Span, Term, Text, is_plain, parse, render
from rowlock.model.state import State
from rowlock.model.times.written_time import WrittenTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
WORDS = (
    "ingest",
    "ingest.a",
    "eu",
    "a%b",
    "a_b",
    "it's",
    'say "hi"',
    "back\\slash",
    "42",
    "true",
    "null",
    "1.50",
    "ü",
    "a b",
    "a,b",
)
WORD = st.sampled_from(WORDS)


@dataclass(frozen=True)
class Row:
    """A job as the oracle knows it. Ages in minutes; ran: minutes from claim to end."""

    id: int
    state: str
    kind: str
    priority: int = 0
    attempt: int = 0
    lane: str | None = None
    tenant: str | None = None
    by: str | None = None
    worker: str | None = None
    phase: str | None = None
    tags: tuple[str, ...] = ()
    refs: dict[str, Any] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    age: int = 0
    ran: int | None = None

    @property
    def created(self) -> datetime:
        return NOW - timedelta(minutes=self.age)

    @property
    def claimed(self) -> datetime | None:
        return None if self.ran is None else self.created + timedelta(minutes=1)

    @property
    def finished(self) -> datetime | None:
        return self.created + timedelta(minutes=1 + (self.ran or 0)) if State(self.state).is_final else None


LANES = {"bulk": ("ingest", "a_b"), "rest": ("*",)}
MAYBE = st.none() | WORD
VALUE = st.one_of(
    st.none(), st.booleans(), st.integers(40, 43), st.just(1.5), WORD, st.lists(st.integers(41, 42) | WORD, max_size=2)
)
ROWS = st.builds(
    Row,
    id=st.just(0),
    state=st.sampled_from(list(map(str, State))),
    kind=st.sampled_from(["ingest", "ingest.a", "a_b", "eu"]),
    priority=st.integers(-2, 2),
    attempt=st.integers(0, 2),
    lane=st.none() | st.sampled_from(["bulk", "rest"]),
    tenant=MAYBE,
    by=MAYBE,
    worker=st.none() | st.sampled_from(["eu", "host"]),
    phase=MAYBE,
    tags=st.lists(WORD, max_size=2).map(tuple),
    refs=st.dictionaries(st.sampled_from(["p", "q r"]), st.integers(41, 43) | WORD, max_size=2),
    args=st.dictionaries(
        st.sampled_from(["a", "b", "é"]), VALUE | st.dictionaries(st.just("c"), VALUE, max_size=1), max_size=2
    ),
    errors=st.dictionaries(st.sampled_from(["type", "message", "reason"]), WORD, max_size=2),
    age=st.integers(0, 200),
    ran=st.none() | st.integers(0, 100),
)

# --- queries ----------------------------------------------------------------------------------------------------------


def span_of(points: SearchStrategy[Any], *, exact: bool = True) -> SearchStrategy[Span]:
    ops = ["=", ">", ">=", "<", "<="] if exact else [">", ">=", "<", "<="]
    return st.builds(Span, st.sampled_from(ops), points) | st.tuples(points, points).map(lambda p: Span("..", *p))


AGES = st.integers(0, 220).map(lambda minutes: timedelta(minutes=minutes, seconds=30))
ENDS_OF_TIME = [
    WrittenTime(start, start + timedelta(days=1))
    for start in (datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC))
]
DAYS = st.sampled_from(ENDS_OF_TIME) | st.integers(-1, 1).map(
    lambda n: WrittenTime(*(NOW.replace(hour=0) + timedelta(days=n + d) for d in (0, 1)))
)
HOURS = st.integers(-5, 1).map(lambda n: WrittenTime(NOW + timedelta(hours=n), NOW + timedelta(hours=n, minutes=1)))
TEXT = (
    WORD
    | st.sampled_from(["ing", "a", "b", "host"])
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5)
)
EXACT = TEXT.map(Text)
PREFIX = st.builds(Text, TEXT | st.just(""), prefix=st.just(True))


def values(one: SearchStrategy[Any]) -> SearchStrategy[tuple[Any, ...]]:
    return st.lists(one, min_size=1, max_size=3, unique=True).map(tuple)


def term(
    name: str, one: SearchStrategy[Any], path: SearchStrategy[tuple[str, ...]] | None = None
) -> SearchStrategy[Term]:
    return st.builds(Term, st.just(name), values(one), st.booleans(), st.just(()) if path is None else path)


ARGS = (
    TEXT.map(Text) | st.just(Text("", prefix=True)) | WORD.filter(is_plain).map(lambda text: Text(text, literal=True))
)
TERMS = st.one_of(
    term("id", st.integers(1, 14).map(lambda n: Text(ids.encode(n)))),
    term("state", st.sampled_from(list(State)).map(lambda state: Text(str(state)))),
    *(term(name, EXACT | PREFIX) for name in ("kind", "tag", "worker", "error", "phase", "tenant", "by")),
    term("lane", st.sampled_from(["bulk", "rest", "none"]).map(Text) | st.just(Text("b", prefix=True))),
    term("args", ARGS, st.sampled_from([("a",), ("b", "c"), ("a", "c"), ("é",)])),
    term("ref", EXACT | PREFIX, st.sampled_from([("p",), ("q r",), ("none",)]).filter(lambda path: " " not in path[0])),
    term("priority", span_of(st.integers(-3, 3))),
    term("attempt", span_of(st.integers(-1, 3))),
    term("created", span_of(AGES) | span_of(DAYS) | span_of(HOURS)),
    term("finished", span_of(AGES) | span_of(DAYS) | span_of(HOURS)),
    term("duration", span_of(st.integers(0, 110).map(lambda n: timedelta(minutes=n)), exact=False)),
    term("text", EXACT),
)
QUERIES = st.lists(TERMS, max_size=3).map(lambda terms: Query(tuple(terms)))


@tried(300)
@given(QUERIES)
@example(Query((Term("text", (Text("-5"),)),)))
@example(Query((Term("args", (Text("1.50"),), path=("a",)),)))
def test_a_tree_is_the_same_after_it_was_written_and_read(query: Query) -> None:
    assert parse(render(query)) == query
    assert parse(f"  {render(query)} ").hash == query.hash


@tried(300)
@given(
    TEXTS
    | st.lists(TEXTS | st.sampled_from(["kind:", "args.", "-", " ", ",", ":", '"', "*", "..", ">"]), max_size=6).map(
        "".join
    )
)
def test_garbage_is_told_with_its_place(text: str) -> None:
    try:
        query = parse(text)
    except InvalidSearch as error:
        assert 0 <= error.position <= max(len(text), 2000)
        assert is_clear(error), str(error)
    else:
        assert parse(render(query)) == query


# --- the oracle -------------------------------------------------------------------------------------------------------


def fits(value: Text, said: str | None) -> bool:
    return said is not None and (said.startswith(value.text) if value.prefix else said == value.text)


def within(span: Span, number: Any) -> bool:  # noqa: ANN401 - numbers or durations
    low = cast("Any", span.low)
    holding: dict[str, bool] = {
        "=": number == low, ">": number > low, ">=": number >= low, "<": number < low, "<=": number <= low,
        "..": low <= number and (span.high is None or number <= cast("Any", span.high)),
    }  # fmt: skip
    return holding[span.op]


def at_time(span: Span, moment: datetime | None, now: datetime) -> bool:
    if moment is None:
        return False
    if isinstance(span.low, WrittenTime):
        low, high = span.low, cast("WrittenTime", span.high or span.low)
        return {
            "=": low.start <= moment < low.end, ">": moment >= low.end, ">=": moment >= low.start,
            "<": moment < low.start, "<=": moment < low.end, "..": low.start <= moment < high.end,
        }[span.op]  # fmt: skip
    age, ages = now - moment, [cast("timedelta", span.low)]
    if span.op == "..":
        ages = sorted([*ages, cast("timedelta", span.high)])
        return ages[0] < age <= ages[1]
    return age > ages[0] if ">" in span.op else age <= ages[0]


def contains(whole: object, part: object) -> bool:
    """As jsonb's @> for what a search can ask."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], item) for key, item in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(contains(one, item) for one in whole) for item in part)
    return type(whole) is type(part) and whole == part if isinstance(part, bool | str | None) else (
        not isinstance(whole, bool) and whole == part
    )  # fmt: skip


def has_argument(row: Row, path: Sequence[str], value: Text) -> bool:
    if value.prefix:
        found: Any = row.args
        for name in path:
            if not isinstance(found, dict) or name not in found:
                return False
            found = found[name]
        return True
    leaves: list[Any] = [value.text]
    if not value.literal and is_plain(value.text):
        leaves.append(json.loads(value.text))
    for leaf in leaves:
        for wanted in (leaf, [leaf]):
            document: Any = wanted
            for name in reversed(path):
                document = {name: document}
            if contains(row.args, document):
                return True
    return False


def number_of(text: str) -> int | None:
    try:
        return ids.parse(text)
    except InvalidId:
        return None


def lane_of(row: Row) -> str:
    named = [kind for kinds in LANES.values() for kind in kinds]
    return row.lane or next(
        lane for lane, kinds in LANES.items() if row.kind in kinds or ("*" in kinds and row.kind not in named)
    )


def holds(term: Term, row: Row, now: datetime) -> bool:
    def one(value: Any) -> bool:  # noqa: ANN401 - a Text or a Span; one return per sort of field
        if term.field in NUMBERS:
            return within(value, getattr(row, term.field))
        if term.field in TIMES:
            return at_time(value, getattr(row, term.field), now)
        if term.field == "duration":
            if row.claimed is None or (row.finished is None and row.state != "running"):
                return False
            # The database's clock says how long it has been running: hours, on whatever day this runs.
            return within(value, (row.finished or datetime.now(UTC)) - row.claimed)
        match term.field:
            case "id":
                return number_of(value.text) == row.id
            case "tag":
                return any(fits(value, tag) for tag in row.tags)
            case "error":
                return any(fits(value, said) for said in row.errors.values())
            case "args":
                return has_argument(row, term.path, value)
            case "ref":
                said = row.refs.get(term.path[0])
                return fits(value, None if said is None else str(said))
            case "lane":
                return fits(value, lane_of(row))
            case "text":
                beginnings = [row.kind, row.errors.get("message", "")]
                return number_of(value.text) == row.id or any(said.startswith(value.text) for said in beginnings)
            case name:
                return fits(value, getattr(row, name))

    return any(map(one, term.values)) != term.negated


LOAD = """
INSERT INTO jobs (id, kind, state, priority, attempt, lane, tenant, submitted_by, claimed_by, tags, refs, args, errors,
                  created_at, claimed_at, finished_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, (SELECT id FROM workers WHERE name = $9), $10, $11::text::jsonb,
        $12::text::jsonb, $13::text::jsonb, $14, $15, $16)
"""
REFS = "INSERT INTO job_refs (name, value, job_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"


async def load(bench: Bench, rows: Sequence[Row]) -> None:
    await bench.sql("TRUNCATE jobs, job_refs, job_progress, waits RESTART IDENTITY CASCADE")
    for row in rows:
        await bench.sql(
            LOAD, row.id, row.kind, row.state, row.priority, row.attempt, row.lane, row.tenant, row.by, row.worker,
            list(row.tags) or None, json.dumps(row.refs) if row.refs else None, json.dumps(row.args),
            json.dumps(row.errors) if row.errors else None, row.created, row.claimed, row.finished,
        )  # fmt: skip
        for name, value in [*(("tag", tag) for tag in row.tags), *row.refs.items()]:
            await bench.sql(REFS, name, str(value), row.id)
        if row.state == State.BLOCKED:
            # A blocked job always waits for something; the search finds it there.
            await bench.sql("INSERT INTO waits (job_id, remaining) VALUES ($1, 1)", row.id)
        if row.phase is not None:
            await bench.sql("INSERT INTO job_progress (job_id, fence, phase) VALUES ($1, 0, $2)", row.id, row.phase)


@pytest.mark.timeout(PATIENCE)
def test_a_search_finds_what_looking_at_every_job_finds(bench: Bench) -> None:
    bench.run(bench.sql("INSERT INTO workers (name, host, pid, version) VALUES ('eu', 'h', 1, '0')"))
    bench.run(bench.sql("INSERT INTO workers (name, host, pid, version) VALUES ('host', 'h', 2, '0')"))
    bench.run(bench.sql("INSERT INTO lanes (name, kinds) VALUES ('bulk', '{ingest,a_b}'), ('rest', '{*}')"))
    job_search = bench.app.jobs._job_search

    async def compare(rows: Sequence[Row], queries: Sequence[Query]) -> None:
        await load(bench, rows)
        for query in queries:
            plan = await job_search.plan(query, now=NOW)
            found, _ = await job_search.counted(plan)
            expected = [row.id for row in reversed(rows) if all(holds(term, row, NOW) for term in query.terms)]
            assert list(found.ids) == expected, render(query)
            page = await bench.app.jobs.search(render(query))
            assert page.cut_off is False

    @tried(15)
    @given(
        st.lists(ROWS, min_size=1, max_size=12).map(lambda rows: [_numbered(row, n) for n, row in enumerate(rows, 1)]),
        st.lists(QUERIES, min_size=8, max_size=8),
    )
    def one(rows: list[Row], queries: list[Query]) -> None:
        bench.run(compare(rows, queries))

    one()


def _numbered(row: Row, number: int) -> Row:
    """Ids rise with the time of creation, as in the table."""
    return Row(**{**vars(row), "id": number, "age": 200 - number * 10 - row.age % 10})


@pytest.mark.timeout(PATIENCE)
def test_no_text_is_slow_breaks_the_query_or_becomes_part_of_it(bench: Bench) -> None:
    bench.run(
        bench.sql(
            "INSERT INTO jobs (kind, args, state, errors, finished_at) SELECT 'k' || n % 50,"
            " jsonb_build_object('a', n), 'failed', jsonb_build_object('message', repeat('ab ', 300)), now()"
            " FROM generate_series(1, 3000) n"
        )
    )

    async def ask(text: str) -> None:
        try:
            await bench.app.jobs.search(text, limit=5)
        except InvalidSearch as error:
            assert is_clear(error), str(error)

    async def limited() -> None:
        await bench.sql(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET statement_timeout = 2000', current_database()); END $$"
        )

    bench.run(limited())
    pieces = TEXTS | st.sampled_from(
        ["kind:", "error:", "args.a:", "ref.x:", "tag:", "-", " ", ",", '"', "*", "%", "_", "\\"]
    )

    @tried(60)
    @given(st.lists(pieces, max_size=6).map("".join) | QUERIES.map(render))
    @example("error:" + '"' + "ab " * 300 + "%" * 300 + '"*')
    @example('args.a:"' + "\\\\" * 500 + '"')
    @example(" ".join(f"-error:{'ab' * 10}*" for _ in range(50)))
    def one(text: str) -> None:
        bench.run(ask(text))

    one()
    assert bench.run(bench.jobs()) == 3000
