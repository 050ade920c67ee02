"""Any value on the whole way: enqueue, table, claim, handler, result, and every door that shows it.

It arrives equal, or it is refused with a clear word before anything is written. Nothing lies between the two.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue
from tests.fuzz.conftest import Bench, is_clear, working
from tests.fuzz.profile import LONG, PATIENCE, tried
from tests.fuzz.strange import DEEP, HUGE, MAPPINGS, MOMENTS, NAMES, NUMBERS, SPANS, TEXTS, json_values, nested

from rowlock import Gate, Rate, Rowlock
from rowlock.errors import ArgumentsTooLarge, EnqueueError, InvalidArguments, RowlockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

    from rowlock.tasks import BaseTask


class Colour(enum.Enum):
    RED = "red"
    DEEP = 2.5


class Level(enum.IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Point:
    x: int
    at: datetime | None = None
    notes: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict, hash=False)


class Account(BaseModel):
    name: str
    blob: bytes = b""
    limits: dict[int, Decimal] = {}
    parent: Account | None = None


TIMES = st.times() | st.times(timezones=st.just(None))
ACCOUNTS: SearchStrategy[Account] = st.deferred(
    lambda: st.builds(
        Account,
        name=TEXTS,
        blob=st.binary(max_size=5),
        limits=st.dictionaries(st.integers(), st.decimals(allow_nan=False, allow_infinity=False), max_size=2),
        parent=st.none() | ACCOUNTS,
    )
)
SORTS: dict[str, tuple[Any, SearchStrategy[Any]]] = {
    "int": (int, st.integers() | HUGE | st.sampled_from([-(2**63), 10**4199])),
    "float": (float, st.floats()),
    "str": (str, TEXTS),
    "bytes": (bytes, st.binary(max_size=20)),
    "decimal": (Decimal, st.decimals() | st.just(Decimal("1e999999"))),
    "datetime": (datetime, MOMENTS),
    "date": (date, st.dates()),
    "time": (time, TIMES),
    "timedelta": (timedelta, st.timedeltas()),
    "uuid": (UUID, st.uuids()),
    "colour": (Colour, st.sampled_from(Colour)),
    "level": (Level, st.sampled_from(Level)),
    "word": (Literal["a", 1] | None, st.sampled_from(["a", 1, None])),
    "ints": (set[int], st.sets(st.integers(), max_size=4)),
    "texts": (frozenset[str], st.frozensets(TEXTS, max_size=3)),
    "pairs": (list[tuple[int, str]], st.lists(st.tuples(st.integers(), TEXTS), max_size=3)),
    "by_text": (dict[str, int | None], st.dictionaries(TEXTS, st.none() | st.integers(), max_size=3)),
    "by_number": (dict[int, str], st.dictionaries(st.integers(), TEXTS, max_size=3)),
    "perhaps": (int | str | None, st.none() | st.integers() | TEXTS),
    "number": (int | float, st.integers() | st.floats()),
    "point": (Point, st.builds(Point, x=st.integers(), at=st.none() | MOMENTS, notes=st.tuples(TEXTS))),
    "account": (Account, ACCOUNTS),
    "json": (JsonValue, json_values() | DEEP),
    "anything": (Any, json_values() | DEEP | MAPPINGS),
}


def same(came: object, sent: object) -> bool:
    """Equal, or what JSON makes of a value whose type nobody declared: a list of a tuple, texts as keys."""
    if isinstance(sent, float) and isinstance(came, int | float):
        return float(came) == sent  # PostgreSQL writes 1e22 with all its digits
    if isinstance(sent, dict) and isinstance(came, dict):
        return len(came) == len(sent) and all(
            same(came[key] if key in came else came.get(str(key)), item) for key, item in sent.items()
        )
    if isinstance(sent, list | tuple) and isinstance(came, list | tuple):
        return len(came) == len(sent) and all(map(same, came, sent))
    return came == sent


def declared(bench: Bench, seen: dict[int, object]) -> dict[str, BaseTask[..., Any]]:
    """A kind for every sort of value, which gives back what it was given."""

    def handler(annotation: object) -> Callable[..., Any]:
        async def give_back(number: int, value: object) -> object:
            seen[number] = value
            return value

        give_back.__annotations__ = {"number": int, "value": annotation, "return": annotation}
        return give_back

    return {sort: bench.app.job(sort)(handler(annotation)) for sort, (annotation, _) in SORTS.items()}


@pytest.mark.timeout(PATIENCE)
def test_every_argument_arrives_as_it_was_sent_or_is_refused_at_once(bench: Bench) -> None:
    seen: dict[int, object] = {}
    kinds = declared(bench, seen)
    numbers = iter(range(10**9))

    async def there_and_back(sort: str, value: object) -> None:
        number, before = next(numbers), await bench.jobs()
        try:
            job = await kinds[sort].enqueue(number, value)
        except (InvalidArguments, ArgumentsTooLarge) as error:
            assert is_clear(error), str(error)
            assert await bench.jobs() == before
            return
        came = await job.wait(timeout=20)
        assert same(seen.pop(number), value)
        assert same(came, value)
        await bench.shown(job.id)

    @tried(120)
    @given(st.sampled_from(sorted(SORTS)).flatmap(lambda sort: st.tuples(st.just(sort), SORTS[sort][1])))
    @example(("json", nested(199)))
    @example(("anything", nested(250)))
    @example(("anything", {1: "one", "1": "another"}))
    @example(("float", 1.7976931348623157e308))
    @example(("float", 5e-324))
    @example(("number", 1e23))
    @example(("str", "\ud800"))
    @example(("str", "\\u0000"))
    @example(("by_text", {"$secret": 1}))
    def one(case: tuple[str, Any]) -> None:
        bench.run(there_and_back(*case))

    with working(bench):
        one()


# --- options ----------------------------------------------------------------------------------------------------------

OPTIONS: dict[str, SearchStrategy[Any]] = {
    "priority": NUMBERS,
    "run_at": MOMENTS,
    "run_in": SPANS,
    "expires_in": SPANS,
    "max_age": SPANS,
    "max_attempts": NUMBERS,
    "unique_key": TEXTS,
    "idempotency_key": TEXTS,
    "keep_key": SPANS,
    "gate": TEXTS | st.builds(lambda key, limit: (key, limit), TEXTS, NUMBERS),
    "tenant": TEXTS,
    "submitted_by": TEXTS,
    "refs": MAPPINGS,
    "tags": st.lists(TEXTS, max_size=3) | TEXTS | NUMBERS | st.just(iter(["gone"])),
    "meta": MAPPINGS,
    "rate": st.tuples(NUMBERS, SPANS, TEXTS),
    "weight": NUMBERS,
}


@pytest.mark.timeout(PATIENCE)
def test_every_option_is_kept_and_shown_or_refused_at_once(bench: Bench) -> None:
    @bench.app.job
    async def plain() -> None: ...

    async def asked(options: dict[str, Any]) -> None:
        before = await bench.jobs()
        try:
            if isinstance(options.get("gate"), tuple):
                options["gate"] = Gate(*options["gate"])
            if "rate" in options:
                amount, per, key = options["rate"]
                options["rate"] = Rate(amount, per, key=key)
            job = await plain.options(**options).enqueue()
        except RowlockError as error:
            assert is_clear(error), str(error)
            assert await bench.jobs() == before
            return
        shown = await bench.shown(job.id)
        if job.what == "kept":
            return  # the key had its job before, with options of its own
        kept = await bench.app.jobs.get(job.id)
        assert list(kept.tags) == list(options.get("tags") or [])
        for name in ("meta", "refs"):
            assert same(getattr(kept, name), dict(options.get(name) or {})), name
            assert same(shown[name], dict(options.get(name) or {})), name
        for name in ("tenant", "submitted_by"):
            assert getattr(kept, name) == options.get(name), name
        assert job.id in [found.id for found in await bench.app.jobs.list(limit=5)]

    @tried(120)
    @given(st.sets(st.sampled_from(sorted(OPTIONS)), min_size=1, max_size=3).flatmap(
        lambda names: st.fixed_dictionaries({name: OPTIONS[name] for name in names})
    ))  # fmt: skip
    @example({"run_at": datetime.fromisoformat("9999-12-31T00:00+00:00"), "expires_in": "100 years"})
    @example({"unique_key": "\ud800"})
    @example({"meta": {"a": "\ud800"}})
    @example({"meta": {"a": "\\u0000"}})
    @example({"meta": {"deep": nested(300)}})
    @example({"meta": {"deep": nested(5000)}})
    @example({"refs": {"\ud800": 1}})
    @example({"gate": ("\0", 1)})
    @example({"gate": ("a", 2**31)})
    @example({"gate": ("x" * 3000, 1)})
    def one(options: dict[str, Any]) -> None:
        bench.run(asked(dict(options)))

    one()


# --- bulk -------------------------------------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"n": "\0"}),
    ({}, {"n": "\ud800"}),
    ({}, {"n": ["x"]}),
    ({}, {}),
    ({}, {"n": "x", "odd": 1}),
    ({}, {"n": "x" * 2_000_000}),
    ({"unique_key": lambda n: n, "on_conflict": "keep"}, {"n": ""}),
    ({"idempotency_key": lambda n: n}, {"n": "x" * 1001}),
    ({"gate": lambda n: n or Gate("")}, {"n": ""}),
    ({"rate": lambda n: Rate(5, key=n or None) if n != "-" else 7}, {"n": "-"}),
]


@pytest.mark.parametrize(("options", "bad"), BAD)
def test_one_bad_item_among_a_thousand_is_named_and_nothing_is_written(
    bench: Bench, options: dict[str, Any], bad: dict[str, Any]
) -> None:
    @bench.app.job
    async def plain(n: str) -> None: ...

    @settings(tried(1), max_examples=5 if LONG else 1)
    @given(st.integers(0, 999))
    def one(place: int) -> None:
        items: list[dict[str, Any]] = [{"n": f"n{number}"} for number in range(1000)]
        items[place] = bad
        with pytest.raises(EnqueueError, match=rf"^Item {place}: ") as told:
            bench.run(plain.options(**options).enqueue_many(items))
        assert is_clear(told.value), str(told.value)
        assert bench.run(bench.jobs()) == 0

    one()


# --- names ------------------------------------------------------------------------------------------------------------


@tried(100)
@given(TEXTS | NAMES.map(lambda name: f"{name}.x-y/z"))
def test_a_kind_is_named_like_a_kind_or_refused(name: str) -> None:
    async def plain() -> None: ...

    try:
        task = Rowlock("postgresql://nowhere/none").job(name)(plain)
    except RowlockError as error:
        assert is_clear(error), str(error)
        return
    assert re.fullmatch(r"[\w./-]{1,200}", task.kind)
