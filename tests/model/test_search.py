from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rowlock.errors import InvalidSearch
from rowlock.model.search import FIELDS, Query, Span, Term, Text, parse, render
from rowlock.model.times.written_time import WrittenTime

WHOLE = (
    "state:failed,running kind:ingest* lane:bulk tag:eu priority:>=5 attempt:>1 worker:host-3 error:Timeout* "
    "args.user.id:42 ref.project:7 phase:editions tenant:acme by:ada created:>2h finished:2026-11-01..2026-11-03 "
    'duration:>10m -tag:test "free text"'
)
DAY = timedelta(days=1)


def at(day: int) -> WrittenTime:
    start = datetime(2026, 11, day, tzinfo=UTC)
    return WrittenTime(start, start + DAY)


def test_every_term_of_the_grammar_is_read() -> None:
    assert parse(WHOLE).terms == (
        Term("state", (Text("failed"), Text("running"))),
        Term("kind", (Text("ingest", prefix=True),)),
        Term("lane", (Text("bulk"),)),
        Term("tag", (Text("eu"),)),
        Term("priority", (Span(">=", 5),)),
        Term("attempt", (Span(">", 1),)),
        Term("worker", (Text("host-3"),)),
        Term("error", (Text("Timeout", prefix=True),)),
        Term("args", (Text("42"),), path=("user", "id")),
        Term("ref", (Text("7"),), path=("project",)),
        Term("phase", (Text("editions"),)),
        Term("tenant", (Text("acme"),)),
        Term("by", (Text("ada"),)),
        Term("created", (Span(">", timedelta(hours=2)),)),
        Term("finished", (Span("..", at(1), at(3)),)),
        Term("duration", (Span(">", timedelta(minutes=10)),)),
        Term("tag", (Text("test"),), negated=True),
        Term("text", (Text("free text"),)),
    )
    assert parse(render(parse(WHOLE))) == parse(WHOLE)


@pytest.mark.parametrize(
    ("text", "position", "suggestion"),
    [
        ("state:fail", 6, "state:failed"),
        ("tag:eu stat:failed", 7, "state:failed"),
        ("kidn:ingest*", 0, "kind:ingest*"),
        ("nothing.like:it", 0, None),
        ("kind:", 5, None),
        ("kind:a,", 7, None),
        ('kind:"open', 5, None),
        ("kind:*a", 5, None),
        ('kind:""', 5, None),
        ("kind.x:a", 4, "kind:"),
        ("args:42", 4, None),
        ("args.:42", 5, None),
        ("args.a..b:42", 9, None),
        ("args.a:4*", 7, None),
        ("args.password.$secret:x", 4, None),
        ("ref:7", 3, None),
        ("priority:high", 9, None),
        ("priority:>99999999999", 10, None),
        ("duration:10m", 9, "duration:>10m"),
        ("created:yesterday", 8, None),
        ("created:2026-02-30", 8, None),
        ("created:2026-11-01..2h", 8, None),
        ("created:>1h..2h", 8, None),
        ("created:..", 8, None),
        ("12:30", 2, None),
        ('"a""b"', 3, None),
        ("-", 1, None),
        ("id:nothing", 3, None),
        ("kind:a\x00", 6, None),
    ],
)
def test_a_mistake_has_a_place_and_if_possible_a_suggestion(text: str, position: int, suggestion: str | None) -> None:
    with pytest.raises(InvalidSearch) as caught:
        parse(text)
    assert (caught.value.position, caught.value.suggestion) == (position, suggestion)
    assert suggestion is None or f"Did you mean {suggestion}?" in str(caught.value)


def test_quotes_take_the_meaning_from_signs() -> None:
    assert parse(r'kind:"a, \"b\" *"').terms == (Term("kind", (Text('a, "b" *'),)),)
    assert parse('kind:"a b"*').terms == (Term("kind", (Text("a b", prefix=True),)),)
    assert parse('args.n:"42" args.n:42').terms == (
        Term("args", (Text("42", literal=True),), path=("n",)),
        Term("args", (Text("42"),), path=("n",)),
    )
    assert parse('"-tag:eu"').terms == (Term("text", (Text("-tag:eu"),)),)


def test_open_ranges_are_comparisons() -> None:
    assert parse("priority:5..").terms == (Term("priority", (Span(">=", 5),)),)
    assert parse("priority:..-5").terms == (Term("priority", (Span("<=", -5),)),)


def test_the_hash_is_of_the_meaning_and_not_of_the_order() -> None:
    assert parse("tag:eu  state:failed").hash == parse('state:failed "tag":eu'.replace('"tag"', "tag")).hash
    assert parse("created:<120m").hash == parse("created:<2h").hash
    assert parse("tag:eu").hash != parse("-tag:eu").hash


def test_what_is_too_much_is_refused() -> None:
    for text in ("x" * 2001, "a " * 51, "tag:" + ",".join(map(str, range(101)))):
        with pytest.raises(InvalidSearch, match="at most"):
            parse(text)


@given(st.text(max_size=80))
@example("kind:a*,b -tag:c")
@example("finished:0001-01-01T00:00+23:59")
@example("created:2026-11-01T10:00:01.0")
@example("created:9999-12-31..9999-12-31")
@example('"\\"')
def test_nothing_but_invalid_search_is_raised(text: str) -> None:
    try:
        query = parse(text)
    except InvalidSearch as error:
        wrong = error
    else:
        assert parse(render(query)) == query
        return
    assert 0 <= wrong.position <= len(text)
    assert wrong.text == text


PIECES = st.sampled_from(
    [*(f"{name}:" for name in FIELDS), "args.a.b:", "ref.x:", "-", " ", ",", "*", '"', "\\", ">", ">=", "<", "..", "2h",
     "2026-11-01", "2026-11-01T10:00Z", "2026-11-01T10:00:01.5+01:00", "5", "-5", "failed", "word", "ü", ":", "="]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
def test_what_can_be_read_can_be_written_and_read_again(text: str) -> None:
    try:
        query = parse(text)
    except InvalidSearch:
        return
    assert parse(render(query)) == query
    assert render(parse(render(query))) == render(query)
    assert Query(query.terms).hash == query.hash
