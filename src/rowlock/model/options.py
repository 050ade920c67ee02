"""Options: how one job is enqueued. They never mix with its arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

from rowlock.errors import InvalidOption
from rowlock.model.keys import KEY_BYTES, checked_key, refuse
from rowlock.model.times.duration import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowlock.model.approval import Approval
    from rowlock.model.kind import Gate, OnConflict, Scope
    from rowlock.model.rate import Rate

Span = timedelta | str | float
_PRIORITY: Final = 100
_KEEP_KEY: Final = "30 days"
_EARLIEST: Final = datetime(1000, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""run_at plus a duration such as expires_in must stay a datetime that Python can read."""
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_DEEPEST: Final = 100
"""Nesting allowed in refs, meta and payloads: the code that displays them goes no deeper."""


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters of options(); None keeps the kind's default. Datetimes must have a time zone."""

    priority: int | None = None
    run_at: datetime | None = None
    run_in: Span | None = None
    expires_in: Span | None = None
    max_age: Span | None = None
    max_attempts: int | None = None
    unique_key: str | Callable[..., str] | None = None
    unique_scope: Scope = "live"
    unique_across_kinds: bool = False
    on_conflict: OnConflict = "reject"
    max_wait: Span | None = None
    idempotency_key: str | Callable[..., str] | None = None
    keep_key: Span = _KEEP_KEY
    gate: Gate | Callable[..., Gate | str] | str | None = None
    tenant: str | None = None
    submitted_by: str | None = None
    refs: Mapping[str, object] | None = None
    tags: Sequence[str] | None = None
    meta: Mapping[str, object] | None = None
    approval: bool | Approval = False
    rate: Rate | Sequence[Rate] | Callable[..., Rate | Sequence[Rate]] | None = None
    weight: int | None = None

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_times()
        self._check_keys()

    def _check_numbers(self) -> None:
        if self.priority is not None:
            checked_priority(self.priority)
        largest = 32767
        if self.max_attempts is not None and not (_whole(self.max_attempts) and 1 <= self.max_attempts <= largest):
            refuse("max_attempts", f"a whole number from 1 to {largest}", self.max_attempts)

    def _check_times(self) -> None:
        if self.run_at is not None:
            if not isinstance(self.run_at, datetime):
                refuse("run_at", "a datetime with a time zone", self.run_at)
            if self.run_at.utcoffset() is None:
                refuse(
                    "run_at",
                    "a datetime with a time zone such as datetime.now(UTC); a naive one is ambiguous",
                    self.run_at,
                )
            if not _EARLIEST <= self.run_at < _LATEST:
                refuse("run_at", "a moment from the year 1000 to the year 9000", self.run_at)
            if self.run_in is not None:
                message = "run_at and run_in were both given. Pass one of them."
                raise InvalidOption(message)
        for name in ("run_in", "expires_in", "max_age", "max_wait"):
            span(getattr(self, name), name)
        if self.keep_key != _KEEP_KEY:
            span(self.keep_key, "keep_key")

    def _check_keys(self) -> None:
        if self.on_conflict not in ("reject", "keep", "replace", "debounce"):
            refuse("on_conflict", '"reject", "keep", "replace" or "debounce"', self.on_conflict)
        if self.unique_scope not in ("live", "waiting"):
            refuse("unique_scope", '"live" (waiting or running) or "waiting"', self.unique_scope)
        if self.on_conflict == "debounce" and self.run_in is None and self.unique_key is not None:
            message = (
                'on_conflict="debounce" pushes the job back by run_in with every call. Pass run_in, '
                'for example run_in="5s".'
            )
            raise InvalidOption(message)
        for name in ("unique_key", "idempotency_key", "tenant", "submitted_by"):
            value = getattr(self, name)
            if value is not None and not (name.endswith("_key") and callable(value)):
                checked_key(value, name)
        if isinstance(self.tags, str | bytes) or not isinstance(self.tags, Collection | None):
            refuse("tags", "a list of strings", self.tags)
        for tag in self.tags or ():
            checked_key(tag, "tags")


def span(value: Span | None, name: str) -> timedelta | None:
    """A duration option as a timedelta; None stays None."""
    return None if value is None else duration(value, name=name)


def checked_priority(value: int) -> int:
    """Return the priority if it is valid."""
    if not _whole(value) or not -_PRIORITY <= value <= _PRIORITY:
        refuse("priority", f"a whole number from -{_PRIORITY} to {_PRIORITY}, higher first", value)
    return value


def as_json(value: Mapping[str, object] | None, name: str) -> str | None:
    """Refs and meta as JSON text; None when there is nothing to store."""
    if not value:
        return None
    try:
        given = dict(value)
    except (TypeError, ValueError) as error:
        message = f"{name} must be a mapping of JSON values: {error}."
        raise InvalidOption(message) from error
    return json_text(given, name)


def _written(value: object) -> str:
    """A UUID, the key of many applications' rows, as it is written everywhere."""
    if isinstance(value, UUID):
        return str(value)
    message = f"Object of type {type(value).__name__} is not JSON serializable"
    raise TypeError(message)


def json_text(value: object, name: str) -> str:
    """A value as JSON text that the database can store and readers can decode."""
    try:
        # Not escaped: half a surrogate pair is found below, and a written "\\u0000" is no NUL.
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, default=_written)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"{name} must be {'a mapping ' if isinstance(value, dict) else ''}of JSON values: {error}."
        raise InvalidOption(message) from error
    if _UNSTORABLE.search(text) or _NUL.search(text):
        refuse(name, "values without NUL or half a surrogate pair", value)
    _check_levels(value, name)
    return text


def _check_levels(value: object, name: str) -> None:
    """Refuse values nested too deep, and keys that become equal in JSON."""
    level = [value]
    for _ in range(_DEEPEST + 1):
        below: list[object] = []
        for one in level:
            if isinstance(one, Mapping):
                if not all(isinstance(key, str) for key in one) and _twins(one):
                    refuse(name, "mappings whose keys stay apart in JSON, unlike 1 and '1'", one)
                below.extend(one.values())
            elif isinstance(one, list | tuple):
                below.extend(one)
        if not below:
            return
        level = below
    refuse(name, f"nested {_DEEPEST} levels deep at most", value)


def _twins(mapping: Mapping[object, object]) -> bool:
    return len(json.loads(json.dumps(dict.fromkeys(mapping)))) < len(mapping)


def refs_json(refs: Mapping[str, object]) -> str | None:
    """Refs as JSON text. Every name and value is indexed, so each has a length limit."""
    text = as_json(refs, "refs")
    for name, value in refs.items():
        size = max(
            len(str(name).encode(errors="replace")),
            len(json.dumps(value, ensure_ascii=False, default=_written).encode(errors="replace")),
        )
        if size > KEY_BYTES:
            message = f"refs must have names and values of at most {KEY_BYTES} bytes; {str(name)[:50]!r} takes {size}."
            raise InvalidOption(message)
    return text


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
