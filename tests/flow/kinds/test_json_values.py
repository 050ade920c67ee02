from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Secret,
    SecretBytes,
    SecretStr,
    computed_field,
)

from rowlock.errors import InvalidArguments
from rowlock.flow.kinds import json_values
from rowlock.flow.kinds.codec import Codec


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Pair(enum.Enum):
    ONE = (1, 2)


class Raw(enum.Enum):
    A = b"\xff"


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0
    seen: tuple[datetime, ...] = ()
    blob: bytes = b""


class Account(BaseModel):
    name: str
    opened: datetime | None = None
    password: SecretStr | None = None
    blob: bytes = b""
    tags: set[str] = Field(default_factory=set)


class Renamed(BaseModel):
    inner: int = Field(validation_alias="Inner", serialization_alias="INNER")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return self.inner * 2


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    when: date
    token: SecretStr


class StrictBlob(BaseModel):
    model_config = ConfigDict(strict=True)
    when: date
    blob: bytes


def _whole_minutes(offset: timedelta) -> timedelta:
    return timedelta(minutes=offset // timedelta(minutes=1))


def of_type(annotation: object) -> Codec:
    def handler(value: object) -> None: ...

    handler.__annotations__ = {"value": annotation, "return": None}
    return Codec.of(handler, context_types=(), kind="report", limit=1_000_000)


def there_and_back(annotation: object, value: object) -> object:
    codec = of_type(annotation)
    return codec.decode(codec.encode((value,)))["value"]


def refused(annotation: object, value: object) -> str:
    with pytest.raises(InvalidArguments) as caught:
        of_type(annotation).encode((value,))
    return str(caught.value)


MOMENT = datetime(2026, 11, 16, 12, 30, 15, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 10**30),
        (float, 0.1),
        (str, "naïve NaN Infinity \\u0000 $5 \U0001f6a3"),
        (str, '"$secret"'),
        (bytes, b"\x00\xff"),
        (bytes, b"YQ=="),
        (UUID, UUID(int=7)),
        (date, date(2026, 2, 28)),
        (time, time(1, 2, 3)),
        (datetime, MOMENT),
        (datetime, MOMENT.astimezone(timezone(timedelta(hours=5, minutes=45)))),
        (timedelta, timedelta(days=-3, microseconds=1)),
        (Decimal, Decimal("1.10")),
        (Colour, Colour.BLUE),
        (Level, Level.LOW),
        (Raw, Raw.A),
        (Path, Path("/tmp/a b")),  # noqa: S108 - only a path
        (IPv4Address, IPv4Address("10.0.0.1")),
        (set[int], {1, 2}),
        (frozenset[UUID], frozenset({UUID(int=1)})),
        (tuple[int, str], (1, "a")),
        (tuple[datetime, ...], (MOMENT,)),
        (dict[UUID, date], {UUID(int=1): date(2026, 1, 1)}),
        (dict[int, str], {1: "a"}),
        (dict[datetime, int], {MOMENT: 1}),
        (dict[Colour, int], {Colour.RED: 1}),
        (list[bytes | str], [b"a", "a"]),
        (Point, Point(1, 2.5, (MOMENT,), b"\xfe")),
        (Account, Account(name="a", opened=MOMENT, password=SecretStr("hush"), blob=b"\xff", tags={"x"})),
        (dict[str, list[Account]], {"a": [Account(name="a", blob=b"plain text")]}),
        (Account | None, None),
        (Renamed, Renamed(Inner=3)),  # type: ignore[call-arg]
        (tuple[Renamed, bytes], (Renamed(Inner=3), b"x")),  # type: ignore[call-arg]
        (Strict, Strict(when=date(2026, 1, 1), token=SecretStr("hush"))),
        (SecretStr, SecretStr("")),
        (SecretBytes, SecretBytes(b"\xff")),
        (Secret[date], Secret(date(2026, 1, 1))),
        (Secret[bytes], Secret(b"\xff")),
        (Secret[dict[str, int]], Secret({"a": 1})),
        (list[SecretStr], [SecretStr("a"), SecretStr("b")]),
    ],
)
def test_values_round_trip_exactly_through_the_annotated_type(annotation: object, value: object) -> None:
    result = there_and_back(annotation, value)
    assert result == value
    assert type(result) is type(value)


@given(st.timedeltas())
def test_timedeltas_round_trip(value: timedelta) -> None:
    assert there_and_back(timedelta, value) == value


@given(
    st.datetimes(
        timezones=st.just(UTC)
        | st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(_whole_minutes))
    )
)
def test_aware_datetimes_round_trip(value: datetime) -> None:
    assert there_and_back(datetime, value) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_round_trip(value: float) -> None:
    assert there_and_back(float, value) == value


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_decimals_round_trip(value: Decimal) -> None:
    assert there_and_back(Decimal, value) == value


@given(st.binary())
def test_bytes_round_trip(value: bytes) -> None:
    assert there_and_back(Account, Account(name="a", blob=value)) == Account(name="a", blob=value)
    assert there_and_back(SecretBytes, value) == SecretBytes(value)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "$b", "c d"]), inner),
    )
)
def test_plain_json_round_trips_without_annotation(value: object) -> None:
    assert there_and_back(Any, value) == value


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (datetime, datetime(2026, 1, 1), "value"),  # noqa: DTZ001 - naive on purpose
        (datetime, "2026-01-01T00:00:00", "value"),
        (Any, {"a": [datetime(2026, 1, 1)]}, "value.a[0]"),  # noqa: DTZ001 - naive on purpose
        (Point, Point(1, seen=(MOMENT, datetime(2026, 1, 1))), "value.seen[1]"),  # noqa: DTZ001 - naive on purpose
        (list[Account], [{"name": "a", "opened": "2026-01-01"}], "value[0].opened"),
        (dict[datetime, int], {datetime(2026, 1, 1): 1}, "value (key)"),  # noqa: DTZ001 - naive on purpose
        (Secret[datetime], datetime(2026, 1, 1), "value"),  # noqa: DTZ001 - naive on purpose
    ],
)
def test_naive_datetimes_are_refused_wherever_they_hide(annotation: object, value: object, path: str) -> None:
    assert refused(annotation, value) == (
        f"report: argument {path!r} is a datetime without time zone (2026-01-01T00:00:00); the worker may live "
        "elsewhere. Write datetime.now(UTC) or give it a tzinfo."
    )


NUL = " contains a NUL character, which PostgreSQL cannot store. Remove it or pass bytes."
KEYS = " which JSON cannot carry. Use texts or numbers as keys, or pass a list of pairs."


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (float, float("nan"), "argument 'value' is nan, which JSON cannot carry. Pass None or a text instead."),
        (
            Point,
            Point(1, float("-inf")),
            "argument 'value.y' is -inf, which JSON cannot carry. Pass None or a text instead.",
        ),
        (Any, [float("inf")], "argument 'value[0]' is inf, which JSON cannot carry. Pass None or a text instead."),
        (
            str,
            "a\0b",
            f"argument 'value'{NUL}",
        ),
        (
            dict[str, int],
            {"\0": 1},
            f"argument 'value (key)'{NUL}",
        ),
        (
            Account,
            Account(name="x", password=SecretStr("\0")),
            f"argument 'value.password'{NUL}",
        ),
        (
            Any,
            "\ud800",
            "argument 'value' contains a lone surrogate, which UTF-8 cannot carry. Decode it properly or pass bytes.",
        ),
        (
            dict[str, int],
            {"$secret": 1},
            "argument 'value' has the key '$secret', which Rowlock keeps for itself. Choose another key.",
        ),
        (
            Any,
            {"a": {"$bytes": "x", "b": 1}},
            "argument 'value.a' has the key '$bytes', which Rowlock keeps for itself. Choose another key.",
        ),
        (
            dict[tuple[int, int], int],
            {(1, 2): 3},
            f"argument 'value' has a key of type tuple,{KEYS}",
        ),
        (
            dict[bytes, int],
            {b"a": 3},
            f"argument 'value' has a key of type bytes,{KEYS}",
        ),
        (
            Any,
            {None: 3},
            f"argument 'value' has a key of type NoneType,{KEYS}",
        ),
        (
            Any,
            [range(3)],
            "argument 'value', a list, cannot be stored as JSON: Unable to serialize unknown type: <class 'range'>",
        ),
        (
            Any,
            object(),
            "argument 'value', a object, cannot be stored as JSON: Unable to serialize unknown type: <class 'object'>",
        ),
    ],
)
def test_what_postgresql_or_json_would_refuse_is_refused_before(
    annotation: object, value: object, message: str
) -> None:
    assert refused(annotation, value) == f"report: {message}"


@pytest.mark.parametrize("annotation", [int, Any])
def test_an_int_that_python_would_not_read_back_is_refused(annotation: object) -> None:
    message = "has more than 4,200 digits and could not be read back. Pass it as bytes."
    assert refused(annotation, 10**5000) == f"report: argument 'value' {message}"
    assert refused(list[annotation], [1, -(10**5000)]) == f"report: argument 'value[1]' {message}"  # type: ignore[valid-type]
    assert there_and_back(annotation, 10**4000) == 10**4000


def test_a_surrogate_in_an_annotated_text_is_refused() -> None:
    assert refused(str, "\ud800").startswith("report: argument 'value' ")


def test_a_circular_argument_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert refused(Any, circle).startswith("report: ")


def test_an_enum_that_json_cannot_give_back_is_refused_at_enqueue() -> None:
    assert refused(Pair, Pair.ONE).startswith(
        "report: JSON cannot carry the arguments there and back: argument 'value' should fit value: "
    )


def test_bytes_in_a_strict_model_are_refused_at_enqueue_and_not_in_the_worker() -> None:
    message = refused(StrictBlob, StrictBlob(when=date(2026, 1, 1), blob=b"x"))
    assert message.startswith("report: JSON cannot carry the arguments there and back: argument 'value.when' should ")
    assert message.endswith(" Pass it in another type.")


def test_a_model_changed_after_its_validation_is_refused() -> None:
    renamed = Renamed(Inner=3)  # type: ignore[call-arg]
    renamed.inner = "three"  # type: ignore[assignment]
    message = refused(Renamed, renamed)
    assert message.startswith("report: argument 'value', a Renamed, cannot be stored as JSON: ")
    assert "'three'" in message


def test_a_changed_model_with_secrets_keeps_its_values_to_itself() -> None:
    account = Account(name="a", password=SecretStr("hush"))
    account.tags = "hunter2"  # type: ignore[assignment]
    assert refused(Account, account) == (
        "report: argument 'value', a Account, cannot be stored as JSON: PydanticSerializationError"
    )


def test_encoded_arguments_are_no_deeper_than_can_be_read_back() -> None:
    json_values.check_arguments("pay", b"[" * 150 + b"]" * 150, 10_000)
    with pytest.raises(InvalidArguments, match="pay: the arguments are nested more than 150 levels deep"):
        json_values.check_arguments("pay", b"[" * 151 + b"]" * 151, 10_000)
