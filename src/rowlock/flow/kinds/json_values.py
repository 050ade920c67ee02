"""Encodes Python values as JSON for a jsonb column, and decodes them again.

pydantic first turns models and dataclasses into plain containers (python mode). Values that JSON cannot carry are then
tagged: secrets, which pydantic would mask, as ``{"$secret": value}``; bytes, whose JSON form depends on the
configuration of each nested model, as ``{"$bytes": base64}``. Values that PostgreSQL could not store, or that could not
be read back, are refused with their path.
"""

from __future__ import annotations

import base64
import math
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Final, Protocol, runtime_checkable
from uuid import UUID

from pydantic_core import PydanticSerializationError, from_json, to_json

from rowlock.errors import ArgumentsTooLarge, InvalidArguments, InvalidResult
from rowlock.model.redact import BYTES, MARKS, SECRET, storable
from rowlock.model.stored_json import DEEPEST, is_deep, nests_deeper

TAG: Final = '"$'  # in every tagged text, and in few others
ADVICE: Final = "Store the payload elsewhere (a table, a bucket, a file) and pass a reference to it."

_MOST_BITS: Final = 14_000  # Python and pydantic read back ints of up to 4,300 digits
_MOST_DIGITS: Final = 4_200
_MINUTE: Final = timedelta(minutes=1)
_KEYS: Final = (str, int, float, UUID, date, time, timedelta, Decimal, Enum, PurePath)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SUSPECTS: Final = (b"NaN", b"Infinity", b"\\u0000", b'"$')
_PREFIX: Final = re.compile(r"^Error serializing to JSON: (?:\w+: )?")  # pydantic's wrapping of a fallback's error
_LONG_NUMBER: Final = re.compile(rb"[0-9]{4200}")


@runtime_checkable
class _Secret(Protocol):
    """SecretStr, SecretBytes and Secret[...], recognised by their method, so that pydantic need not be imported."""

    def get_secret_value(self) -> object: ...


@dataclass(slots=True)
class Tagger:
    """Walks over one value: tags what JSON cannot carry, refuses what cannot be stored, counts what it tagged."""

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
        if not isinstance(key, _KEYS):
            message = (
                f"{named(path)} has a key of type {type(key).__name__}, which JSON cannot carry. "
                "Use texts or numbers as keys, or pass a list of pairs."
            )
            raise ValueError(message)  # noqa: TRY004 - a misfit in the caller's data, like the others
        written = self.tag(key, f"{path} (key)")
        # Compared as it is written: an Enum may stand for the text.
        if isinstance(written, str) and written in MARKS:
            message = f"{named(path)} has the key {written!r}, which Rowlock keeps for itself. Choose another key."
            raise ValueError(message)
        return written


def dump(value: object, tagger: Tagger, *, simple: bool) -> bytes:
    """Encode a python-mode dump as JSON that jsonb accepts and that reads back unchanged. simple: see SchemaTraits."""
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


def check_arguments(kind: str, data: bytes, limit: int) -> None:
    """Refuse encoded arguments that are too large or nested too deep, on whichever way they came."""
    if len(data) > limit:
        message = f"{kind}: the arguments take {len(data):,} bytes, the limit is {limit:,}. {ADVICE}"
        raise ArgumentsTooLarge(message)
    if is_deep(data):
        raise _too_deep(kind)


def check_depth(kind: str, args: object) -> None:
    """Refuse arguments of lists and mappings that are nested too deep to be encoded at all."""
    if nests_deeper(args, DEEPEST):
        raise _too_deep(kind)


def _too_deep(kind: str) -> InvalidArguments:
    return InvalidArguments(f"{kind}: the arguments are nested more than {DEEPEST} levels deep. {ADVICE}")


def is_storable(data: bytes, longest: int) -> bool:
    """Whether JSON of simple values certainly needs neither tags nor a refusal. longest: bytes of the longest one."""
    for suspect in _SUSPECTS:
        if suspect in data:
            return False
    return longest < _MOST_DIGITS or not _LONG_NUMBER.search(data)


def checkpoint(value: object) -> str:
    """A checkpoint as JSON text; InvalidResult if JSON cannot carry it."""
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
    """Decode tagged JSON. The flag: whether it holds values that exist only in Python (bytes)."""
    found: list[bytes] = []
    return _untagged(from_json(text), found), bool(found)


def holds_bytes(value: object) -> bool:
    """Whether a value holds bytes, which JSON cannot carry."""
    if isinstance(value, Mapping):
        return any(map(holds_bytes, value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds_bytes, value))
    return isinstance(value, bytes)


def named(path: str) -> str:
    """Write a path for people: ``.rows[3].price`` is argument 'rows[3].price'."""
    return f"argument {path[1:]!r}" if path.startswith(".") else f"the value{path and ' at ' + repr(path)}"


def _by_its_own_type(value: object) -> object:
    from rowlock.flow.kinds import pydantic_schema  # noqa: PLC0415 - see schema.py

    return pydantic_schema.by_its_own_type(value)


def _untagged(value: object, found: list[bytes]) -> object:
    if isinstance(value, list):
        return [_untagged(item, found) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {SECRET}:
        return _untagged(value[SECRET], found)
    if value.keys() == {BYTES}:
        if not isinstance(value[BYTES], str):
            message = f"{BYTES} holds {value[BYTES]!r}, not a text in base64"
            raise ValueError(message)
        found.append(base64.b64decode(value[BYTES], validate=True))
        return found[-1]
    return {key: _untagged(item, found) for key, item in value.items()}


def _distinct(tagged: dict[object, object], path: str) -> dict[object, object]:
    """Refuse keys that are the same text in JSON: of 1 and "1" only one would arrive."""
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
    """The moment in UTC if its offset has seconds: those are not written, and it would arrive as another moment."""
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
