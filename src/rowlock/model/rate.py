"""Rate: how often jobs of a key may start. Code gives its first value; afterwards its row in the database decides."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from typing_extensions import override

from rowlock.errors import ConfigurationError, InvalidOption
from rowlock.model.keys import checked_key
from rowlock.model.times.duration import duration, humanise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from rowlock.model.count import Count

LANE: Final = "lane:"
"""Prefix of the keys of lanes' caps and rates."""
_MOST: Final = 1_000_000_000
_SHORTEST: Final = timedelta(milliseconds=1)
_SHORTEST_WINDOW: Final = timedelta(milliseconds=100)
_TEXT: Final = re.compile(r"\s*([0-9]+)\s*/\s*(\S.*?)\s*")
_MOST_WEIGHT: Final = 32767


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `amount` starts per `per`: a bucket that holds `burst`, or with window=True a strict sliding window.

    In any span T a bucket lets `burst + amount * T / per` start; a window never more than `amount` in any `per`.
    """

    amount: int
    """Starts allowed per period."""
    per: timedelta
    """The period."""
    burst: int
    """Size of the bucket: starts possible at once after a pause; `amount` unless given. A window has none."""
    window: bool
    """Whether it is a strict sliding window instead of a token bucket."""
    key: str | None
    """Jobs with the same key share the rate; without a key all jobs of the kind do."""

    def __init__(
        self,
        amount: int,
        per: timedelta | str | float = "1s",
        *,
        burst: int | None = None,
        window: bool = False,
        key: str | None = None,
    ) -> None:
        """burst: `amount` unless given; a window has none."""
        span = duration(per, "per")
        if window and burst is not None:
            message = "A window never lets more than its amount start, so it has no burst. Leave burst out."
            raise InvalidOption(message)
        for name, value in (("amount", amount), ("burst", amount if burst is None else burst)):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
                message = f"A rate's {name} is a whole number from 1 to {_MOST:,}; got {value!r}."
                raise InvalidOption(message)
        least = _SHORTEST_WINDOW if window else _SHORTEST
        if span < least:
            message = f"A rate's per must be {humanise(least)} or more; got {per!r}."
            raise InvalidOption(message)
        values = (amount, span, amount if burst is None else burst, window, None if key is None else _checked(key))
        for name, given in zip(("amount", "per", "burst", "window", "key"), values, strict=True):
            object.__setattr__(self, name, given)

    def for_key(self, key: str) -> Rate:
        """The same rate for jobs that share this key alone, as f"org:{org_id}"."""
        return Rate(self.amount, self.per, burst=None if self.window else self.burst, window=self.window, key=key)

    @classmethod
    def parse(cls, text: str, *, burst: int | None = None, window: bool = False) -> Rate:
        """A rate as people write it: 10/s, 100/1m, 5/30s."""
        found = _TEXT.fullmatch(text)
        if found is None:
            message = f"A rate is written as amount/time, such as 10/s, 100/1m or 5/30s; got {text!r}."
            raise InvalidOption(message)
        per = found[2] if found[2][:1].isdigit() else f"1{found[2]}"
        return cls(int(found[1]), per, burst=burst, window=window)

    @override
    def __str__(self) -> str:
        """As parse() reads it, followed by burst or window."""
        more = " window" if self.window else f" burst {self.burst}" if self.burst != self.amount else ""
        per = humanise(self.per)
        return f"{self.amount}/{per.removeprefix('1') if per in ('1s', '1m', '1h', '1d') else per}{more}"

    @property
    def stored(self) -> str:
        """As JSON, as a lane's row stores it."""
        fields = {"amount": self.amount, "per": self.per.total_seconds(), "burst": self.burst, "window": self.window}
        return json.dumps(fields)

    @classmethod
    def from_stored(cls, text: str | None) -> Rate | None:
        """From the JSON of a lane's row."""
        return None if text is None else cls.from_mapping(json.loads(text))

    @classmethod
    def from_mapping(cls, fields: Mapping[str, Any]) -> Rate:
        """From decoded JSON."""
        window = bool(fields["window"])
        burst = None if window else fields["burst"]
        return cls(fields["amount"], fields["per"], burst=burst, window=window, key=fields.get("key"))


Rated = Rate | Sequence[Rate]
"""The rate= of a kind or a call: one rate, or several that must all have room."""


def checked_weight(value: object, rates: Sequence[Rate]) -> int:
    """Return the weight if its rates can ever have room for it."""
    most = min([_MOST_WEIGHT, *(rate.amount if rate.window else rate.burst for rate in rates)])
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        message = f"weight must be a whole number from 1 to {most}, what its rate has room for; got {value!r}."
        raise InvalidOption(message)
    return value


def rates_of(given: object, named: Mapping[str, object], scope: str) -> tuple[Rate, ...]:
    """The rates of one job, each with its key, sorted by key."""
    if given is None:
        return ()
    if callable(given):
        given = cast("Callable[..., object]", given)(**named)
    found = [given] if isinstance(given, Rate) else list(given) if isinstance(given, Sequence) else None
    if found is None or not all(isinstance(rate, Rate) for rate in found):
        message = (
            f"rate must be a Rate, a list of them, or a function of the arguments that returns one; got {given!r}."
        )
        raise InvalidOption(message)
    keyed = [rate if rate.key is not None else rate.for_key(f"kind:{scope}") for rate in found]
    keys = [rate.key for rate in keyed]
    if len(set(keys)) < len(keys):
        message = f"Two rates of one job share the key {keys[0]!r}. Give each its own with .for_key(…)."
        raise InvalidOption(message)
    return tuple(sorted(keyed, key=lambda rate: rate.key or ""))


def _checked(key: str) -> str:
    if checked_key(key, "a rate's key").startswith(LANE):
        message = f"The key of a rate cannot start with {LANE!r}: those belong to lanes. Got {key!r}."
        raise ConfigurationError(message)
    return key


@dataclass(frozen=True, slots=True)
class RateView:
    """A rate as operators see it. available: starts possible now; waiting: about how many wait until busy_until."""

    key: str
    rate: Rate
    available: int
    waiting: int
    busy_until: datetime | None
    paused_until: datetime | None
    paused_by: str | None
    used_at: datetime
    edited_at: datetime | None


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that has a place at a gate. since None: it got the place and is about to start."""

    public_id: str
    kind: str
    worker: str | None
    since: datetime | None


@dataclass(frozen=True, slots=True)
class GateView:
    """A gate as operators see it. parked: jobs waiting at it, counted to a thousand; holders: jobs with a place."""

    key: str
    limit: int
    fifo: bool
    held: int
    parked: Count
    used_at: datetime
    edited_at: datetime | None
    holders: tuple[Holder, ...] = ()

    @property
    def parked_capped(self) -> bool:
        """Whether more jobs wait than were counted."""
        return not self.parked.exact
