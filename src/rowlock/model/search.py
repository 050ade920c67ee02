"""The search grammar: `state:failed,running kind:ingest* created:<2h -tag:test "free text"`.

A space means AND, a comma OR, a leading - NOT. parse() reads it, render() writes it; nothing here touches a database.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from rowlock.errors import InvalidOption, InvalidSearch
from rowlock.model import ids
from rowlock.model.redact import SECRET
from rowlock.model.spelling.similar_names import closest
from rowlock.model.state import State
from rowlock.model.times.duration import duration, humanise
from rowlock.model.times.written_time import WrittenTime, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NUMBERS: Final = ("priority", "attempt")
TIMES: Final = ("created", "finished")
TEXTS: Final = ("kind", "lane", "tag", "worker", "error", "fingerprint", "phase", "tenant", "by", "backend")
PATHS: Final = ("args", "ref")
FIELDS: Final = ("id", "state", *TEXTS, *PATHS, *NUMBERS, *TIMES, "duration")
FREE: Final = "text"
"""The field of a bare word: an id, or the beginning of a kind or of an error message."""
_LONGEST: Final = 2000
_MOST_TERMS: Final = 50
_MOST_VALUES: Final = 100
_LARGEST: Final = 2**31 - 1
_HASH: Final = 16

_FIELD: Final = re.compile(r"([A-Za-z_]+)((?:\.[^\s:,\"]+)?):")
_BARE: Final = re.compile(r"[^\s,\"]+")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(\*?)', re.DOTALL)
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_SAFE: Final = re.compile(r"[^\s,\"*\\:<>=\-.][^\s,\"*\\]*")
_PLAIN: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_SPAN: Final = re.compile(r"(>=|<=|>|<|=)?(.*?)(?:\.\.(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Text:
    """A text to compare with. prefix: match its beginning; literal: quoted, so that "42" is a text and no number."""

    text: str
    prefix: bool = False
    literal: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A comparison of numbers, durations or times. op: = > >= < <= or .. (from low to high, both included)."""

    op: str
    low: int | timedelta | WrittenTime
    high: int | timedelta | WrittenTime | None = None


Value: TypeAlias = Text | Span


@dataclass(frozen=True, slots=True)
class Term:
    """One condition, fulfilled by any of its values. path: the keys below args, or the name of a reference."""

    field: str
    values: tuple[Value, ...]
    negated: bool = False
    path: tuple[str, ...] = ()
    position: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Query:
    """A search: every term must hold."""

    terms: tuple[Term, ...] = ()

    @property
    def hash(self) -> str:
        """Equal for queries with the same terms in any order."""
        return digest(*sorted(map(_rendered, self.terms)))


def digest(*parts: str) -> str:
    """A short hash of these texts."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:_HASH]


def parse(text: str) -> Query:
    """Read a search; InvalidSearch says at which character it fails."""
    try:
        return _parse(text)
    except InvalidSearch as error:
        error.text = text
        raise


def _parse(text: str) -> Query:
    if len(text) > _LONGEST:
        raise _wrong(f"A search has at most {_LONGEST} characters; this one has {len(text)}.", _LONGEST)
    if bad := _UNSTORABLE.search(text):
        raise _wrong("A character here cannot be stored in PostgreSQL, so no job has it.", bad.start())
    terms: list[Term] = []
    at = _spaces(text, 0)
    while at < len(text):
        if len(terms) == _MOST_TERMS:
            raise _wrong(f"A search has at most {_MOST_TERMS} terms.", at)
        term, at = _term(text, at)
        terms.append(term)
        if at < len(text) and not text[at].isspace():
            raise _wrong("A space is expected between terms; a text with spaces or commas stands in quotes.", at)
        at = _spaces(text, at)
    return Query(tuple(terms))


def render(query: Query) -> str:
    """The query as text, which parse() reads back."""
    return " ".join(map(_rendered, query.terms))


def _term(text: str, start: int) -> tuple[Term, int]:
    negated = text[start] == "-"
    at = start + negated
    head = _FIELD.match(text, at)
    if head is None:
        values, at = _values(text, at, _free)
        return Term(FREE, values, negated, (), start), at
    name = head[1].lower()
    path = _path(name, head[2][1:], head, text)
    read = _reader(name)
    values, at = _values(text, head.end(), lambda raw, quoted, where: read(raw, quoted, where, name))
    return Term(name, values, negated, path, start), at


def _path(name: str, path: str, head: re.Match[str], text: str) -> tuple[str, ...]:
    if name not in FIELDS:
        near = closest(name, FIELDS, n=1)
        rest = _BARE.match(text, head.end())
        hint = f"{near[0]}{head[2]}:{rest[0] if rest else ''}" if near else None
        raise _wrong(f"There is no field {head[1]!r}; there are {', '.join(FIELDS)}.", head.start(), hint)
    if name not in PATHS:
        if path:
            raise _wrong(f"{name} has no parts; write {name}:…", head.start(2), f"{name}:")
        return ()
    parts = tuple(path.split(".")) if name == "args" else (path,)
    if not all(parts):
        example = "args.user.id:42" if name == "args" else "ref.project:7"
        raise _wrong(f"{name} needs the name of what is compared, such as {example}.", head.end() - 1)
    if SECRET in parts:
        raise _wrong("A secret argument cannot be searched for.", head.start(2))
    return parts


def _values(
    text: str, at: int, read: Callable[[str, re.Match[str] | None, int], Value]
) -> tuple[tuple[Value, ...], int]:
    values: list[Value] = []
    while True:
        if len(values) == _MOST_VALUES:
            raise _wrong(f"A term has at most {_MOST_VALUES} values.", at)
        quoted = _QUOTED.match(text, at)
        raw = quoted or _BARE.match(text, at)
        if raw is None:
            opened = at < len(text) and text[at] == '"'
            raise _wrong("The closing quote is missing." if opened else "A value is expected here.", at)
        values.append(read(_unquoted(quoted[1]) if quoted else raw[0], quoted, at))
        at = raw.end()
        if at >= len(text) or text[at] != ",":
            return tuple(dict.fromkeys(values)), at
        at += 1


def _reader(name: str) -> Callable[[str, re.Match[str] | None, int, str], Value]:
    if name in NUMBERS or name in TIMES or name == "duration":
        return _span
    return {"state": _state, "id": _id}.get(name, _text)


def _text(raw: str, quoted: re.Match[str] | None, at: int, name: str) -> Text:
    prefix = bool(quoted[2]) if quoted else raw.endswith("*")
    text = raw if quoted else raw[: len(raw) - prefix]
    if not quoted and "*" in text:
        raise _wrong("A * stands at the end only, for any rest; a literal one stands in quotes.", at + text.index("*"))
    if not text and not prefix and name != "args":
        raise _wrong(f"{name} is never empty; {name}:* finds jobs that have one, -{name}:* those that have none.", at)
    if prefix and text and name == "args":
        raise _wrong("Arguments are compared as a whole; a * alone finds jobs that have the argument.", at)
    return Text(text, prefix, literal=name == "args" and quoted is not None and is_plain(text))


def _free(raw: str, quoted: re.Match[str] | None, at: int) -> Text:
    if not quoted and ":" in raw:
        raise _wrong("A colon belongs to a field; put a text with a colon in quotes.", at + raw.index(":"))
    text = _text(raw, quoted, at, FREE).text
    if not text:
        raise _wrong("A text is expected here.", at)
    return Text(text)


def _state(raw: str, _quoted: re.Match[str] | None, at: int, _name: str) -> Text:
    try:
        return Text(State(raw.lower()))
    except ValueError:
        near = closest(raw.lower(), list(State), n=1)
        hint = f"state:{near[0]}" if near else None
        raise _wrong(f"There is no state {raw!r}; there are {', '.join(State)}.", at, hint) from None


def _id(raw: str, _quoted: re.Match[str] | None, at: int, _name: str) -> Text:
    try:
        return Text(ids.encode(ids.parse(raw)))
    except ValueError as error:
        raise _wrong(str(error), at) from None


def _span(raw: str, quoted: re.Match[str] | None, at: int, name: str) -> Span:
    found = _SPAN.fullmatch(raw)
    if found is None or quoted:
        raise _wrong(f"{name} is compared like {_examples(name)}.", at)
    op, low, high = found[1], found[2], found[3]
    if high is None:
        if op is None and name == "duration":
            raise _wrong(f"{name} is compared like {_examples(name)}.", at, f"{name}:>{raw}")
        return Span(op or "=", _point(low, at + found.start(2), name))
    if op is not None or not (low or high):
        raise _wrong(f"A range has no comparison and an end: {_examples(name)}.", at)
    if not high:
        return Span(">=", _point(low, at, name))
    if not low:
        return Span("<=", _point(high, at + found.start(3), name))
    ends = _point(low, at, name), _point(high, at + found.start(3), name)
    if type(ends[0]) is not type(ends[1]):
        raise _wrong("A range lies between two dates or between two ages.", at)
    return Span("..", *ends)


def _point(raw: str, at: int, name: str) -> int | timedelta | WrittenTime:
    """Read a number, a duration or a time (a date, or how long ago)."""
    if name in NUMBERS:
        if not re.fullmatch(r"-?[0-9]{1,10}", raw) or abs(int(raw)) > _LARGEST:
            raise _wrong(f"{name} is a whole number: {_examples(name)}.", at)
        return int(raw)
    try:
        if name in TIMES and (found := parse_time(raw)):
            return found
        return duration(raw, name)
    except (InvalidOption, ValueError):
        raise _wrong(f"{raw!r} is not what {name} is compared with: {_examples(name)}.", at) from None


def _examples(name: str) -> str:
    if name in NUMBERS:
        return f"{name}:>=5, {name}:<0 or {name}:1..10"
    if name == "duration":
        return "duration:>10m, duration:<1s or duration:1m..1h"
    return f"{name}:<2h (less than two hours ago), {name}:>=2026-11-01 or {name}:2026-11-01..2026-11-03"


def _rendered(term: Term) -> str:
    head = "" if term.field == FREE else ".".join([term.field, *term.path]) + ":"
    args = term.field == "args"
    return "-" * term.negated + head + ",".join(_written(value, args=args) for value in term.values)


def _written(value: Value, *, args: bool) -> str:
    if isinstance(value, Text):
        star = "*" * value.prefix
        safe = _SAFE.fullmatch(value.text) and ":" not in value.text
        if (not value.literal and (safe or (args and is_plain(value.text)))) or (star and not value.text):
            return value.text + star
        return '"' + value.text.replace("\\", "\\\\").replace('"', '\\"') + '"' + star
    low, high = _point_text(value.low), "" if value.high is None else _point_text(value.high)
    return f"{low}..{high}" if value.op == ".." else value.op.replace("=", "" if value.op == "=" else "=") + low


def written_text(text: str) -> str:
    """A text as a value of a search: as it is, or in quotes where it needs them."""
    return _written(Text(text), args=False)


def _point_text(point: int | timedelta | WrittenTime) -> str:
    return humanise(point) if isinstance(point, timedelta) else str(point)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _spaces(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _wrong(message: str, position: int, suggestion: str | None = None) -> InvalidSearch:
    return InvalidSearch(message, position, suggestion)


def is_plain(text: str) -> bool:
    """Whether the text is a JSON number, true, false or null: unquoted, it is compared as text and as that value."""
    return _PLAIN.fullmatch(text) is not None


def positives(query: Query, *fields: str) -> Iterable[Term]:
    """The terms of these fields that are not negated."""
    return (term for term in query.terms if term.field in fields and not term.negated)
