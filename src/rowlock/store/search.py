"""A search as SQL: one condition per term, composed of fragments of search.sql. User text is always a parameter."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from rowlock.errors import InvalidId
from rowlock.model import ids
from rowlock.model.search import FREE, NUMBERS, TIMES, Span, Text, is_plain
from rowlock.model.times.written_time import WrittenTime
from rowlock.store.queries import Statement, numbered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowlock.model.lane import Lane
    from rowlock.model.search import Query, Term
    from rowlock.store.queries import Statements

_LEAST, _MOST = -(2**31), 2**31 - 1
_INSTANT: Final = timedelta(microseconds=1)
_SHORTEST, _FOREVER = timedelta(days=-36_525), timedelta(days=365_250)
_SPECIAL: Final = ("lane", "tag", "error", "fingerprint")
DEAR: Final = frozenset({"args", "error", "fingerprint", "phase", "worker", "tag", "ref", "backend", FREE})
"""Fields whose terms cost more per row than a comparison with a column."""


@dataclass(frozen=True, slots=True)
class SearchFacts:
    """What a search needs to know first: the database's clock, and its lanes when a term names one."""

    now: datetime
    lanes: Sequence[Lane] = ()


@dataclass(frozen=True, slots=True)
class AccessPath:
    """How jobs are reached: by id, ref, fingerprint, state, tenant, submitter or list of ids, with its parameters."""

    name: str
    values: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The filter as SQL, with the values of its parameters."""

    text: str
    values: dict[str, object]


def conditions(statements: Statements, query: Query, known: SearchFacts, scope: Conditions | None = None) -> Conditions:
    """The conditions of every term, and of `scope`: what the caller may see."""
    composer = _Composer(statements, known)
    parts = [composer.term(term) for term in query.terms] + ([scope.text] if scope else [])
    return Conditions(" AND ".join(parts) or "true", composer.values | (scope.values if scope else {}))


def composed(statements: Statements, name: str, walk: AccessPath, where: Conditions, *, newest: bool) -> Statement:
    """The statement search_ids, search_count or search_reach over an access path, newest or oldest first."""
    direction = "DESC" if newest else "ASC"
    slots = {
        "walk": statements.fragment(f"search_by_{walk.name}", direction=direction),
        "keys": statements.fragment(f"search_by_{walk.name}_keys", direction=direction),
        "conditions": where.text,
        "direction": direction,
    }
    return Statement(name, statements.fragment(name, **slots))


def locking(statements: Statements, where: Conditions) -> Statement:
    """The statement that locks, of given jobs, those that still fulfil the conditions."""
    return Statement("search_lock", statements.fragment("search_lock", conditions=where.text))


def few_by_args(statements: Statements, terms: Iterable[Term]) -> tuple[Statement, dict[str, object]]:
    """The statement for the ids of jobs that fulfil these terms on args, through the index on args."""
    composer = _Composer(statements, SearchFacts(datetime.min))  # noqa: DTZ901 - no time is compared
    text = " AND ".join([composer.term(term) for term in terms])
    return Statement("search_few_args", statements.fragment("search_few_args", conditions=text)), composer.values


def bounds(span: Span, now: datetime) -> tuple[datetime | None, datetime | None]:
    """From (included) and until (excluded); None: open. A duration is an age: `<2h` is less than two hours ago."""
    low, high = span.low, span.high
    if isinstance(low, WrittenTime):
        last = cast("WrittenTime", high or low)
        return {
            "=": (low.start, low.end),
            ">": (low.end, None),
            ">=": (low.start, None),
            "<": (None, low.start),
            "<=": (None, low.end),
            "..": (low.start, last.end),
        }[span.op]
    ages = sorted(age for age in (low, high) if isinstance(age, timedelta))
    if span.op == "..":
        return now - ages[1], now - ages[0]
    return (None, now - ages[0]) if ">" in span.op else (now - ages[0], None)


def window(terms: Iterable[Term], now: datetime) -> tuple[datetime | None, datetime | None]:
    """The span that all these terms leave: from (included) and until (excluded); None: open."""
    lows, highs = [], []
    for term in terms:
        pairs = [bounds(span, now) for span in term.values if isinstance(span, Span)]
        low, high = ([pair[n] for pair in pairs] for n in (0, 1))
        if None not in low:
            lows.append(min(cast("list[datetime]", low)))
        if None not in high:
            highs.append(max(cast("list[datetime]", high)))
    return max(lows, default=None), min(highs, default=None)


class _Composer:
    """Collects conditions; each use of a fragment gets parameters of its own."""

    def __init__(self, statements: Statements, known: SearchFacts) -> None:
        self._statements, self._known = statements, known
        self.values: dict[str, object] = {}
        self._used = 0

    def term(self, term: Term) -> str:
        condition = self._condition(term)
        return self._statements.fragment("search_not", condition=condition) if term.negated else f"({condition})"

    def _condition(self, term: Term) -> str:
        if term.field in NUMBERS:
            return self._any(self._number(term.field, value) for value in term.values)
        if term.field in TIMES:
            return self._any(self._time(term.field, value) for value in term.values)
        if term.field == "duration":
            return self._any(self._duration(value) for value in term.values)
        texts = [value for value in term.values if isinstance(value, Text)]
        if term.field == "args":
            return self._any(self._args(term.path, value) for value in texts)
        if term.field in ("id", FREE):
            return self._named(term.field, texts)
        return self._texts(term, texts)

    def _texts(self, term: Term, texts: Sequence[Text]) -> str:
        exact = [value.text for value in texts if not value.prefix]
        likes = [like_prefix(value.text) for value in texts if value.prefix]
        values: dict[str, object] = {"exact": exact, "likes": likes}
        if term.field == "lane":
            values |= self._lanes(texts)
        if term.field == "ref":
            values["name"] = term.path[0]
        if term.field in _SPECIAL:
            return self._use(f"search_{term.field}", values, "lane")
        return self._use("search_texts" if likes else "search_exact", values, term.field)

    def _named(self, name: str, texts: Sequence[Text]) -> str:
        likes = [like_prefix(value.text) for value in texts]
        numbers = [number for value in texts if (number := number_of(value.text)) is not None]
        return self._use("search_id" if name == "id" else "search_free", {"ids": numbers, "likes": likes})

    def _lanes(self, texts: Sequence[Text]) -> dict[str, object]:
        lanes = self._known.lanes
        asked = [lane for lane in lanes if any(_matches(value, lane.name) for value in texts)]
        return {
            "kinds": [kind for lane in asked for kind in lane.kinds],
            "rest": any("*" in lane.kinds for lane in asked),
            "named": [kind for lane in lanes for kind in lane.kinds],
        }

    def _number(self, name: str, value: object) -> str:
        span = cast("Span", value)
        low = cast("int", span.low)
        least, most = {
            "=": (low, low),
            ">": (low + 1, _MOST),
            ">=": (low, _MOST),
            "<": (_LEAST, low - 1),
            "<=": (_LEAST, low),
            "..": (low, cast("int", span.high)),
        }[span.op]
        return self._use("search_numbers", {"least": min(least, _MOST), "most": max(most, _LEAST)}, name)

    def _time(self, name: str, value: object) -> str:
        low, high = bounds(cast("Span", value), self._known.now)
        return self._use("search_times", {"from": low, "until": high}, name)

    def _duration(self, value: object) -> str:
        span = cast("Span", value)
        low = cast("timedelta", span.low)
        least, most = {
            "=": (low, low),
            ">": (low + _INSTANT, _FOREVER),
            ">=": (low, _FOREVER),
            "<": (_SHORTEST, low - _INSTANT),
            "<=": (_SHORTEST, low),
            "..": (low, cast("timedelta", span.high)),
        }[span.op]
        return self._use("search_duration", {"least": least, "most": most})

    def _args(self, path: Sequence[str], value: Text) -> str:
        if value.prefix:
            return self._use("search_args_there", {"path": list(path)})
        return self._any(
            self._use("search_args", {"document": json.dumps(document)}) for document in _documents(path, value)
        )

    def _use(self, name: str, values: dict[str, object], column: str | None = None) -> str:
        self._used += 1
        slots = {} if column is None else {"column": self._statements.fragment(f"search_column_{column}")}
        text = numbered(self._statements.fragment(name, **slots), self._used)
        self.values |= {f"{key}_{self._used}": item for key, item in values.items()}
        return text

    @staticmethod
    def _any(parts: Iterable[str]) -> str:
        return "(" + " OR ".join(parts) + ")"


def _documents(path: Sequence[str], value: Text) -> list[dict[str, Any]]:
    """What args must contain: the text, or the JSON value that it spells; by itself or in a list."""
    leaves: list[Any] = [value.text]
    if not value.literal and is_plain(value.text):
        plain = json.loads(value.text)
        if not isinstance(plain, float) or math.isfinite(plain):
            leaves.insert(0, plain)
    return [_nested(path, leaf) for leaf in [*leaves, *([leaf] for leaf in leaves)]]


def _nested(path: Sequence[str], leaf: object) -> dict[str, Any]:
    for name in reversed(path):
        leaf = {name: leaf}
    return cast("dict[str, Any]", leaf)


def like_prefix(prefix: str) -> str:
    """The LIKE pattern of texts with this beginning."""
    return prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"


def _matches(value: Text, name: str) -> bool:
    return name.startswith(value.text) if value.prefix else name == value.text


def number_of(text: str) -> int | None:
    """The job id that a text spells; None: it is no id."""
    try:
        return ids.parse(text)
    except InvalidId:
        return None
