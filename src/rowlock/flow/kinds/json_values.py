"""Values on their way to a jsonb column and back.

pydantic turns models and dataclasses into plain containers first (python mode). What JSON cannot carry is tagged then:
secrets, which pydantic would mask, as ``{"$secret": value}``; bytes, whose JSON form depends on the configuration of
each nested model, as ``{"$bytes": base64}``. What PostgreSQL or a later reader would choke on is refused with its path.
"""

from __future__ import annotations

import base64
import math
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Final, Protocol, runtime_checkable
from uuid import UUID

from pydantic_core import PydanticSerializationError, from_json, to_json

from rowlock.errors import InvalidResult
from rowlock.model.redact import BYTES, OUTPUT, SECRET, storable

TAG: Final = '"$'  # what every tagged text contains, and few others

_MOST_BITS: Final = 14_000  # Python and pydantic read back ints of up to 4,300 digits
_MOST_DIGITS: Final = 4_200
_MINUTE: Final = timedelta(minutes=1)
DEEPEST: Final = 150
"""Levels of lists and mappings in each other; pydantic reads back some 200 of them."""
_KEYS: Final = (str, int, float, UUID, date, time, timedelta, Decimal, Enum, PurePath)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SUSPECTS: Final = (b"NaN", b"Infinity", b"\\u0000", b'"$')
_PREFIX: Final = re.compile(r"^Error serializing to JSON: (?:\w+: )?")  # pydantic's wrapping of a fallback's error
_LONG_NUMBER: Final = re.compile(rb"[0-9]{4200}")
_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')  # texts as a whole: brackets in them do not count
# Schemas made only of these hold no secret, no bytes and no datetime, and need no walk through the value.
# fmt: off
_SIMPLE: Final = frozenset({
    "int", "str", "bool", "float", "none", "uuid", "date", "decimal", "timedelta", "literal", "enum", "nullable",
    "union", "list", "tuple", "dict", "set", "frozenset", "default", "definitions", "definition-ref", "typed-dict",
    "typed-dict-field", "model", "model-fields", "model-field", "dataclass", "dataclass-args", "dataclass-field",
})
# fmt: on
_MADE: Final = frozenset({"model", "dataclass"})
_OMITTING: Final = frozenset({"serialization_exclude", "serialization_exclude_if"})


@dataclass(frozen=True, slots=True)
class Traits:
    """What a pydantic core schema tells about the values to come."""

    simple: bool
    flat: bool  # simple, and python mode leaves its values as they are: no models, nothing left out or let in
    aliased: bool
    secret: bool  # over-approximated by name: when in doubt, error messages keep values to themselves


@runtime_checkable
class _Secret(Protocol):
    """SecretStr, SecretBytes and Secret[...], known by what they can do: without them pydantic stays unimported."""

    def get_secret_value(self) -> object: ...


@dataclass(slots=True)
class Tagger:
    """One walk over one value: tags what needs it, refuses what cannot be stored, counts what it tagged."""

    naive_allowed: bool = False
    secrets: int = 0
    others: int = 0

    def tag(self, value: object, path: str = "") -> object:  # noqa: PLR0911 - one return per sort of value
        """Copy `value` with tags; ValueError says where and why."""
        match value:
            case Enum():
                self.others += not isinstance(value.value, str | int | float)
                return self.tag(value.value, path)
            case str():
                return _storable(value, path)
            case int():
                return _readable(value, path)
            case float():
                return _finite(value, path)
            case bytes() | bytearray() | memoryview():
                self.others += 1
                return {BYTES: base64.b64encode(value).decode()}
            case datetime():
                return _instant(value if self.naive_allowed else _aware(value, path), path)
            case Mapping():
                tagged = {self._key(key, path): self.tag(item, f"{path}.{key}") for key, item in value.items()}
                return tagged if all(type(key) is str for key in tagged) else _distinct(tagged, path)
            case list() | tuple() | set() | frozenset() | deque():
                return [self.tag(item, f"{path}[{index}]") for index, item in enumerate(value)]
            case _Secret():
                self.secrets += 1
                return {SECRET: self.tag(value.get_secret_value(), path)}
            case _:
                return value

    def _key(self, key: object, path: str) -> object:
        if key in (SECRET, BYTES, OUTPUT):
            message = f"{named(path)} has the key {key!r}, which Rowlock keeps for itself. Choose another key."
            raise ValueError(message)
        if not isinstance(key, _KEYS):
            message = (
                f"{named(path)} has a key of type {type(key).__name__}, which JSON cannot carry. "
                "Use texts or numbers as keys, or pass a list of pairs."
            )
            raise ValueError(message)  # noqa: TRY004 - of the caller's data, told like the other misfits
        return self.tag(key, f"{path} (key)")


def dump(value: object, tagger: Tagger, *, simple: bool) -> bytes:
    """Write a python-mode dump as JSON that jsonb accepts and reads back unchanged."""
    if simple:
        try:
            data = to_json(value, inf_nan_mode="constants")
        except ValueError:
            pass  # the walk below says where
        else:
            if is_storable(data, len(data)):
                return data
    try:
        return to_json(tagger.tag(value), inf_nan_mode="constants", fallback=_by_its_own_type)
    except PydanticSerializationError as error:
        raise ValueError(_PREFIX.sub("", str(error))) from None


def is_deep(data: bytes) -> bool:
    """Whether JSON may have more levels than can be read back; cheap, and right about those that have."""
    return len(data) > 2 * DEEPEST and data.count(b"[") + data.count(b"{") > DEEPEST and _levels(data) > DEEPEST


def _levels(data: bytes) -> int:
    level = deepest = 0
    for bracket in _BRACKET.finditer(data):
        level += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(bracket[0], 0)
        deepest = max(deepest, level)
    return deepest


def is_storable(data: bytes, longest: int) -> bool:
    """Whether JSON of simple values, or many such, surely needs no tag and no refusal; longest: bytes of one."""
    for suspect in _SUSPECTS:
        if suspect in data:
            return False
    return longest < _MOST_DIGITS or not _LONG_NUMBER.search(data)


def checkpoint(value: object) -> str:
    """A checkpoint as it is stored; InvalidResult when no JSON can carry it."""
    try:
        data = to_json(value)
    except (ValueError, RecursionError) as error:
        message = f"A checkpoint of {type(value).__name__} cannot be stored as JSON: {storable(str(error))}."
        raise InvalidResult(message) from error
    if is_deep(data):
        message = f"A checkpoint may be nested {DEEPEST} levels deep; this one is nested deeper."
        raise InvalidResult(message)
    return data.decode()


def untag(text: str) -> tuple[object, bool]:
    """Read tagged JSON; the flag says whether it holds values that only exist in Python (bytes)."""
    found: list[bytes] = []
    return _untagged(from_json(text), found), bool(found)


def holds_bytes(value: object) -> bool:
    """Whether a plain value holds bytes, which JSON cannot carry."""
    if isinstance(value, Mapping):
        return any(map(holds_bytes, value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds_bytes, value))
    return isinstance(value, bytes)


def traits(schema: object) -> Traits:
    """Look through a core schema; anything unknown counts as not simple."""
    sorts: set[str] = set()
    aliased = secret = partial = False
    for node in _nodes(schema):
        if isinstance(node, Mapping):
            sorts.add(_sort(node))
            aliased = aliased or "validation_alias" in node
            partial = partial or not _OMITTING.isdisjoint(node) or _lets_anything_in(node)
        else:
            secret = secret or "secret" in str(getattr(node, "__qualname__", "")).lower()
    simple = sorts <= _SIMPLE
    flat = simple and not partial and sorts.isdisjoint(_MADE)
    return Traits(simple=simple, flat=flat, aliased=aliased, secret=secret)


def named(path: str) -> str:
    """Write a path for people: ``.rows[3].price`` is argument 'rows[3].price'."""
    return f"argument {path[1:]!r}" if path.startswith(".") else f"the value{path and ' at ' + repr(path)}"


def _by_its_own_type(value: object) -> object:
    from rowlock.flow.kinds import pydantic_schema  # noqa: PLC0415 - see plain

    return pydantic_schema.by_its_own_type(value)


def _nodes(schema: object) -> Iterator[object]:
    pending, seen = [schema], set[int]()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Mapping):
            if "type" in node:
                yield node
            pending.extend(node.values())
        elif isinstance(node, list | tuple):
            pending.extend(node)
        elif callable(node):
            yield node


def _sort(node: Mapping[object, object]) -> str:
    sort = str(node["type"])
    if sort == "dict":
        keys = node.get("keys_schema")
        return sort if isinstance(keys, Mapping) and keys.get("type") in ("str", "int", "uuid") else "dict of others"
    if sort == "enum":
        members = node.get("members")
        scalar = isinstance(members, list) and all(isinstance(member.value, str | int) for member in members)
        return sort if scalar else "enum of others"
    return sort


def _lets_anything_in(node: Mapping[object, object]) -> bool:
    config = node.get("config")
    says = config.get("extra_fields_behavior") if isinstance(config, Mapping) else None
    return "allow" in (node.get("extra_behavior"), says)


def _untagged(value: object, found: list[bytes]) -> object:
    if isinstance(value, list):
        return [_untagged(item, found) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {SECRET}:
        return _untagged(value[SECRET], found)
    if value.keys() == {BYTES}:
        found.append(base64.b64decode(value[BYTES], validate=True))
        return found[-1]
    return {key: _untagged(item, found) for key, item in value.items()}


def _distinct(tagged: dict[object, object], path: str) -> dict[object, object]:
    """JSON has but texts as keys: of 1 and "1" only one would arrive."""
    written: dict[str, object] = from_json(to_json(dict.fromkeys(tagged), inf_nan_mode="constants"))
    if len(written) < len(tagged):
        message = f"{named(path)} has keys that are the same text in JSON, such as 1 and '1'. Pass a list of pairs."
        raise ValueError(message)
    return tagged


def _storable(text: str, path: str) -> str:
    if "\0" in text:
        message = f"{named(path)} contains a NUL character, which PostgreSQL cannot store. Remove it or pass bytes."
        raise ValueError(message)
    if _SURROGATE.search(text):
        message = (
            f"{named(path)} contains a lone surrogate, which UTF-8 cannot carry. Decode it properly or pass bytes."
        )
        raise ValueError(message)
    return text


def _readable(number: int, path: str) -> int:
    if number.bit_length() > _MOST_BITS:
        message = f"{named(path)} has more than {_MOST_DIGITS:,} digits and could not be read back. Pass it as bytes."
        raise ValueError(message)
    return number


def _finite(number: float, path: str) -> float:
    if not math.isfinite(number):
        message = f"{named(path)} is {number}, which JSON cannot carry. Pass None or a text instead."
        raise ValueError(message)
    return number


def _instant(moment: datetime, path: str) -> datetime:
    """The moment in UTC where its offset has seconds, which are not written: it would arrive as another moment."""
    offset = moment.utcoffset()
    if offset is None or not offset % _MINUTE:
        return moment
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        message = (
            f"{named(path)} ({moment.isoformat()}) lies outside of the years 1 to 9999 in UTC. Pass a text instead."
        )
        raise ValueError(message) from None


def _aware(moment: datetime, path: str) -> datetime:
    if moment.utcoffset() is None:
        message = (
            f"{named(path)} is a datetime without time zone ({moment.isoformat()}); the worker may live elsewhere. "
            "Write datetime.now(UTC) or give it a tzinfo."
        )
        raise ValueError(message)
    return moment
