from __future__ import annotations

import json
import re
from collections.abc import Callable  # noqa: TC003 - handlers' annotations are read at run time
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from rowlock.errors import (
    ArgumentsTooLarge,
    EnqueueError,
    InvalidArguments,
    InvalidResult,
    UndecodableArguments,
    UnreadableArguments,
)
from rowlock.flow.kinds.codec import Codec
from rowlock.model.kind import Kind
from rowlock.model.outcome import Partial, Snooze  # noqa: TC001 - the codec reads the annotations

T = TypeVar("T")


class Context(Generic[T]):
    pass


class SyncContext:
    pass


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0


class Report(BaseModel):
    title: str
    made: datetime
    key: SecretStr | None = None


def codec(function: Callable[..., object], limit: int = 100_000) -> Codec:
    return Codec.of(function, context_types=(Context, SyncContext), kind="report", limit=limit)


def refused(function: Callable[[], object], error: type[Exception] = InvalidArguments) -> str:
    with pytest.raises(error) as caught:
        function()
    assert type(caught.value) is error
    return str(caught.value)


async def build(ctx: Context[int], org_id: int, full: bool = False) -> str: ...  # type: ignore[empty-body]


def either(a: int, /, b: int = 2, *, c: int = 3) -> None: ...


def plot(points: list[Point]) -> Point: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((7,), {}, '{"org_id":7}'),
        ((), {"org_id": 7}, '{"org_id":7}'),
        ((7, True), {}, '{"org_id":7,"full":true}'),
        ((7,), {"full": False}, '{"org_id":7,"full":false}'),
        (("7",), {}, '{"org_id":7}'),
    ],
)
def test_arguments_bind_like_a_call_without_the_context(
    args: tuple[object, ...], kwargs: dict[str, object], text: str
) -> None:
    assert codec(build).encode(args, kwargs) == text


def test_defaults_are_not_stored_so_that_a_later_default_applies() -> None:
    text = codec(build).encode((7,))

    def later(org_id: int, full: bool = True, extra: str = "new") -> None: ...

    assert codec(later).decode(text) == {"org_id": 7}


def test_encoding_leaves_the_callers_mapping_alone() -> None:
    kwargs: dict[str, object] = {"full": True}
    codec(build).encode(("7",), kwargs)
    assert kwargs == {"full": True}


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "report: argument 'org_id' is missing; it should be int in report(org_id: int, full: bool = False)."),
        ((1, True, 3), {}, "report(org_id: int, full: bool = False) takes at most 2 positional arguments, got 3."),
        (
            (1,),
            {"org_id": 2},
            (
                "report(org_id: int, full: bool = False) got argument 'org_id' twice, by position and by name. "
                "Pass it once."
            ),
        ),
        (
            (1,),
            {"ful": True},
            "report: there is no argument 'ful' in report(org_id: int, full: bool = False). Did you mean 'full'?",
        ),
        ((1,), {"xyz": 1}, "report: there is no argument 'xyz' in report(org_id: int, full: bool = False)."),
        (
            (1,),
            {"ctx": 1},
            "report: argument 'ctx' is the context, which the worker passes. Leave it out.",
        ),
        (
            ("seven",),
            {},
            (
                "report: argument 'org_id' should fit org_id: int, got 'seven' (str) "
                "(Input should be a valid integer, unable to parse string as an integer)."
            ),
        ),
        (
            ("x" * 99,),
            {},
            (
                f"report: argument 'org_id' should fit org_id: int, got '{'x' * 59}… (str) "
                "(Input should be a valid integer, unable to parse string as an integer)."
            ),
        ),
    ],
)
def test_a_call_that_does_not_fit_says_how(args: tuple[object, ...], kwargs: dict[str, object], message: str) -> None:
    assert refused(lambda: codec(build).encode(args, kwargs)) == message


@pytest.mark.parametrize(("name", "option"), [("countdown", "run_in"), ("priority", "priority"), ("eta", "run_at")])
def test_an_option_among_the_arguments_is_sent_to_options(name: str, option: str) -> None:
    message = refused(lambda: codec(build).encode((1,), {name: 5}))
    assert message.endswith(f" Options go first: .options({option}=…).enqueue(…).")


def test_at_most_three_misfits_are_told() -> None:
    def many(a: int, b: int, c: int, d: int, e: int) -> None: ...

    message = refused(lambda: codec(many).encode())
    assert message.count("is missing") == 3
    assert message.endswith("And 2 more.")


def test_a_misfit_deep_inside_is_named_by_its_path() -> None:
    message = refused(lambda: codec(plot).encode(([{"x": 1}, {"x": "no"}],)))
    assert message.startswith("report: argument 'points[1].x' should fit points: list[")
    message = refused(lambda: codec(plot).encode(([{}],)))
    assert message.startswith("report: argument 'points[0].x' is missing; points should be list[")


def test_positional_only_parameters_are_stored_by_name_and_passed_by_position() -> None:
    either_codec = codec(either)
    assert either_codec.encode((1,), {"b": 5}) == '{"a":1,"b":5}'
    assert either_codec.bind(either_codec.decode('{"a":1,"c":9}'), None) == ((1,), {"c": 9})
    assert refused(lambda: either_codec.encode((), {"a": 1})) == (
        "report(a: int, /, b: int = 2, *, c: int = 3) takes 'a' by position only; pass it without its name."
    )
    assert refused(lambda: either_codec.encode((1, 2, 3))) == (
        "report(a: int, /, b: int = 2, *, c: int = 3) takes at most 2 positional arguments, got 3."
    )
    assert either_codec.encode_many([{"a": 1}]) == ['{"a":1}']


def test_an_absent_positional_only_parameter_takes_its_default() -> None:
    def handler(_ctx: Context[int], a: int = 1, b: int = 2, /) -> tuple[int, int]:
        return a, b

    call: Callable[..., object] = handler
    handler_codec = codec(handler)
    args, kwargs = handler_codec.bind(handler_codec.decode('{"b":5}'), Context())
    assert call(*args, **kwargs) == (1, 5)


def test_binding_inserts_the_context_wherever_it_stands() -> None:
    def last(a: int, *, ctx: SyncContext) -> None: ...

    context = SyncContext()
    assert codec(last).bind({"a": 1}, context) == ((), {"a": 1, "ctx": context})
    assert codec(last).encode((1,)) == '{"a":1}'


def test_a_handler_without_context_gets_none() -> None:
    def alone(a: int) -> None: ...

    assert codec(alone).bind({"a": 1}, object()) == ((), {"a": 1})


def test_a_handler_without_arguments() -> None:
    def nothing() -> None: ...

    assert codec(nothing).encode() == "{}"
    assert codec(nothing).decode("{}") == {}


def test_encode_many_names_the_item() -> None:
    build_codec = codec(build, limit=30)
    assert build_codec.encode_many({"org_id": i} for i in range(3)) == [f'{{"org_id":{i}}}' for i in range(3)]
    assert refused(lambda: build_codec.encode_many([{"org_id": 1}, {}])) == (
        "Item 1: report: argument 'org_id' is missing; it should be int in report(org_id: int, full: bool = False)."
    )
    assert refused(lambda: build_codec.encode_many([{"org_id": 10**40}]), ArgumentsTooLarge).startswith("Item 0: ")
    not_a_mapping: Any = 7
    assert refused(lambda: build_codec.encode_many([not_a_mapping])) == (
        "Item 0: report: expected a mapping of arguments, got 7 (int)."
    )


# Stored arguments meet the handler of today.


def test_stored_arguments_are_read_with_their_types() -> None:
    assert codec(plot).decode('{"points":[{"x":1,"y":2.5}]}') == {"points": [Point(1, 2.5)]}


ADVICE = (
    ' Old and new code meet like this: give new parameters a default, drop old ones with unknown_args="ignore", '
    "change others with a version and an upgrade."
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "argument 'org_id' is missing; it should be int in report(org_id: int, full: bool = False)."),
        ('{"org_id":1,"old":2}', "there is no argument 'old' in report(org_id: int, full: bool = False)."),
        (
            '{"org_id":"x"}',
            (
                "argument 'org_id' should fit org_id: int, got 'x' (str) "
                "(Input should be a valid integer, unable to parse string as an integer)."
            ),
        ),
    ],
)
def test_stored_arguments_that_no_longer_fit_say_why(text: str, why: str) -> None:
    message = refused(lambda: codec(build).decode(text), UnreadableArguments)
    assert message == f"report: the stored arguments do not fit report(org_id: int, full: bool = False): {why}{ADVICE}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "expected an object, found a list"),
        ('["$version"]', "expected an object, found a list"),
        ("{", "it is no JSON"),
        ('{"org_id":{"$bytes":"?"}}', "Only base64 data is allowed"),
        ('{"org_id":{"$bytes":5}}', "holds 5, not a text in base64"),
        (f'{{"org_id":{"[" * 160}{"]" * 160}}}', "nested more than 150 levels deep"),
    ],
)
def test_stored_arguments_that_no_code_could_read_say_why(text: str, why: str) -> None:
    message = refused(lambda: codec(build).decode(text), UndecodableArguments)
    assert message.startswith("report: the stored arguments cannot be read: ")
    assert why in message
    assert codec(build).completed(text) == text


def test_what_people_see_masked_is_taken_as_a_secret_or_not_at_all() -> None:
    def pay(amount: int, token: SecretStr | None = None) -> None: ...

    assert codec(pay).decode('{"amount":1,"token":{"$secret":"hush"}}')["amount"] == 1
    message = refused(lambda: codec(pay).decode('{"amount":{"$secret":1000000}}'), UnreadableArguments)
    assert "stored as a secret that the handler does not take as one" in message
    # The result of another step may be a secret, whatever the parameter says.
    assert codec(pay).decode('{"$version":[1,"output"],"amount":{"$secret":5}}') == {"amount": 5}


# The limit.


def test_arguments_beyond_the_limit_are_refused_with_advice() -> None:
    def handler(text: str) -> None: ...

    assert codec(handler, limit=21).encode(("x" * 10,)) == '{"text":"xxxxxxxxxx"}'
    assert refused(lambda: codec(handler, limit=2000).encode(("ä" * 1000,)), ArgumentsTooLarge) == (
        "report: the arguments take 2,011 bytes, the limit is 2,000. "
        "Store the payload elsewhere (a table, a bucket, a file) and pass a reference to it."
    )
    assert issubclass(ArgumentsTooLarge, EnqueueError)


# Results.


def untyped(a: int): ...  # type: ignore[no-untyped-def]  # noqa: ANN201


def nothing(a: int) -> None: ...


def report(a: int) -> Report: ...  # type: ignore[empty-body]


def opaque(a: int) -> Callable[[], Codec] | object: ...


@pytest.mark.parametrize("function", [untyped, nothing, report, build])
def test_no_result_is_stored_as_nothing(function: Callable[..., object]) -> None:
    assert codec(function).encode_result(None) is None
    assert codec(function).decode_result(None) is None


def test_a_result_comes_back_as_the_return_annotation_says() -> None:
    result = Report(title="Q3", made=datetime(2026, 1, 1), key=SecretStr("hush"))  # noqa: DTZ001 - allowed in results
    text = codec(report).encode_result(result)
    assert text == '{"title":"Q3","made":"2026-01-01T00:00:00","key":{"$secret":"hush"}}'
    assert codec(report).decode_result(text) == result


@pytest.mark.parametrize("function", [untyped, nothing, opaque])
def test_a_result_without_usable_annotation_is_plain_json(function: Callable[..., object]) -> None:
    text = codec(function).encode_result({"p": Point(1), "n": [1, 2.5, None], "d": Decimal("1.10")})
    assert text == '{"p":{"x":1,"y":0.0},"n":[1,2.5,null],"d":"1.10"}'
    assert codec(function).decode_result(text) == json.loads(text)


def test_a_result_of_another_type_than_annotated_is_stored_and_the_reader_told() -> None:
    text = codec(build).encode_result(5)
    assert text == "5"
    assert refused(lambda: codec(build).decode_result(text), InvalidResult) == (
        "report: the stored result does not fit the return annotation str: the value: Input should be a valid string."
    )
    assert "title: Field required" in refused(lambda: codec(report).decode_result("{}"), InvalidResult)
    assert "Only base64 data" in refused(lambda: codec(build).decode_result('{"$bytes":"?"}'), InvalidResult)


ENDING = " Return a pydantic model, a dataclass or plain values."


@pytest.mark.parametrize(
    ("value", "sort", "why"),
    [
        (object(), "object", "Unable to serialize unknown type: <class 'object'>"),
        (float("nan"), "float", "the value is nan, which JSON cannot carry. Pass None or a text instead."),
        ([float("inf")], "list", "the value at '[0]' is inf, which JSON cannot carry. Pass None or a text instead."),
        (
            {"a": "\0"},
            "dict",
            "'a' contains a NUL character, which PostgreSQL cannot store. Remove it or pass bytes.",
        ),
        (
            "\ud800",
            "str",
            "the value contains a lone surrogate, which UTF-8 cannot carry. Decode it properly or pass bytes.",
        ),
    ],
)
def test_a_result_that_cannot_be_stored_names_its_type(value: object, sort: str, why: str) -> None:
    message = refused(lambda: codec(untyped).encode_result(value), InvalidResult)
    assert message.startswith(f"report: the result, a {sort}, cannot be stored as JSON: ")
    assert message.endswith(why + ENDING)


def test_a_circular_result_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert refused(lambda: codec(untyped).encode_result(circle), InvalidResult).endswith(ENDING)


def test_a_result_beyond_the_limit_is_refused() -> None:
    assert refused(lambda: codec(build, limit=10).encode_result("x" * 20), InvalidResult) == (
        "report: the result takes 22 bytes, the limit is 10. "
        "Store the payload elsewhere (a table, a bucket, a file) and pass a reference to it."
    )


async def partly() -> Partial: ...  # type: ignore[empty-body]


async def sometimes() -> Point | Snooze | None: ...


def test_outcomes_in_the_return_annotation_are_not_the_type_of_the_result() -> None:
    assert codec(partly).decode_result('{"imported": 3}') == {"imported": 3}
    assert codec(sometimes).decode_result('{"x": 1}') == Point(1)


def test_results_have_a_limit_of_their_own() -> None:
    small = Codec.of(build, context_types=(Context,), kind="report", limit=100, result_limit=10)
    assert small.encode((), {"org_id": 7, "full": True}) == '{"org_id":7,"full":true}'
    assert "the limit is 10" in refused(lambda: small.encode_result("x" * 20), InvalidResult)


_VALUES = st.one_of(
    st.none(), st.integers(-(2**70), 2**70), st.text(), st.floats(), st.booleans(), st.lists(st.integers(), max_size=2)
)


@given(st.lists(st.fixed_dictionaries({}, optional={"number": _VALUES, "text": _VALUES, "more": _VALUES}), max_size=4))
def test_many_at_once_are_encoded_and_refused_like_one_by_one(items: list[dict[str, Any]]) -> None:
    async def mix(number: int | None = None, text: str = "", more: float | list[int] | None = None) -> None: ...

    codec = Codec.of(mix, context_types=(), kind="mix", limit=200)

    def one_by_one() -> list[str]:
        return [codec._encode(dict(item)) for item in items]

    def told(work: Callable[[], list[str]]) -> list[str] | str:
        try:
            return work()
        except (InvalidArguments, ArgumentsTooLarge) as error:
            return re.sub(r"^Item \d+: ", "", f"{error}") + type(error).__name__

    expected = told(one_by_one)
    assert told(lambda: codec.encode_many(items)) == expected
    assert told(lambda: [codec.encode((), item) for item in items]) == expected


@pytest.mark.parametrize(
    ("bad", "named"), [({"number": "x"}, "number"), ({"number": 1, "odd": 2}, "odd"), ({}, "number"), (7, "mapping")]
)
def test_a_bad_item_among_thousands_is_named(bad: object, named: str) -> None:
    async def ship(number: int) -> None: ...

    codec = Codec.of(ship, context_types=(), kind="ship", limit=200)
    items: list[Any] = [{"number": n} for n in range(25_000)]
    items[20_001] = bad
    with pytest.raises(InvalidArguments, match=rf"^Item 20001: ship: .*{named}"):
        codec.encode_many(items)


def test_versions_are_written_with_many_as_with_one() -> None:
    async def ship(number: int = 0) -> None: ...

    codec = Codec.of(ship, context_types=(), kind=Kind("ship", version=3), limit=200)
    assert codec.encode_many([{"number": 1}, {}]) == ['{"$version":3,"number":1}', '{"$version":3}']
    assert [codec.encode((), {"number": 1}), codec.encode()] == ['{"$version":3,"number":1}', '{"$version":3}']


def test_a_result_that_is_not_what_its_annotation_says_is_written_under_its_field_names() -> None:
    class Renamed(BaseModel):
        inner: int = Field(alias="Inner")
        made: timedelta = timedelta(seconds=2)

    async def work() -> int:
        return 3

    assert codec(work).encode_result(Renamed(Inner=3)) == '{"inner":3,"made":"PT2S"}'
