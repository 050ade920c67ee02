from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Annotated, Any, Dict, List, NewType, Optional, Union  # noqa: UP035 - users may write them
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from rowlock.flow.kinds import pydantic_schema, schema, signature
from rowlock.flow.kinds.codec import Codec
from rowlock.flow.kinds.schema import arguments_schema

Number = NewType("Number", int)


class Level(IntEnum):
    LOW = 1


class Model(BaseModel):
    n: int


PLAIN = [
    int,
    str,
    bool,
    float,
    UUID,
    None,
    type(None),
    Any,
    list,
    dict,
    list[int],
    List[str],  # noqa: UP006 - users may write it
    list[list[UUID]],
    dict[str, Any],
    dict[int, list[float]],
    Dict[str, bool],  # noqa: UP006 - as above
    int | None,
    Optional[str],  # noqa: UP045 - as above
    Union[None, list[int]],  # noqa: UP007 - as above
    list[int | None],
]
OTHERS = [
    bytes,
    datetime,
    object,
    Level,
    Model,
    Number,
    int | str,
    list[Model],
    dict[str, datetime],
    tuple[int, ...],
    set[int],
    Sequence[int],
    Annotated[int, Field(gt=0)],
    Annotated[int, []],
    Model | None,
    Callable[[], int],
]


@pytest.mark.parametrize("annotation", PLAIN, ids=str)
def test_the_schema_of_a_plain_annotation_is_the_one_pydantic_makes(annotation: Any) -> None:  # noqa: ANN401 - a type
    assert schema.simple_schema(annotation) == TypeAdapter(annotation).core_schema


@pytest.mark.parametrize("annotation", OTHERS, ids=str)
def test_whatever_else_is_left_to_pydantic(annotation: object) -> None:
    assert schema.simple_schema(annotation) is None


def add(a: int, b: str | None, c: float = 1.5, d: dict[str, Any] | None = None) -> None: ...


@pytest.mark.parametrize("unknown", ["refuse", "ignore"])
def test_the_schema_of_plain_arguments_says_what_pydantic_says(unknown: Any) -> None:  # noqa: ANN401 - a literal
    arguments = signature.read(add, (), "add").arguments
    made = schema.simple_arguments_schema(arguments, unknown=unknown, required=frozenset({"a", "b"}))
    by_pydantic = dict(pydantic_schema.arguments(arguments, "add", unknown=unknown).core_schema)
    for name in ("cls", "computed_fields", "ref"):
        by_pydantic.pop(name)
    for field in by_pydantic["fields"].values():
        field.pop("metadata")
    assert made == by_pydantic


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.uuids().map(str),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


def judged(validator: Any, text: str) -> object:  # noqa: ANN401 - of either maker
    try:
        return validator.validate_json(text)
    except ValidationError as error:
        return error.errors(include_url=False)


@given(annotation=st.sampled_from(PLAIN), value=VALUES)
def test_both_make_the_same_of_every_value(annotation: Any, value: object) -> None:  # noqa: ANN401 - a type
    made = schema.simple_schema(annotation)
    assert made is not None
    text = json.dumps(value)
    assert repr(judged(SchemaValidator(made), text)) == repr(judged(TypeAdapter(annotation), text))


def test_mixed_arguments_are_read_by_pydantic_and_plain_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def mixed(a: int, model: Model) -> None: ...

    asked: list[str] = []
    made = pydantic_schema.arguments

    def arguments(parameters: Any, kind: str, **says: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - passed on
        asked.append(kind)
        return made(parameters, kind, **says)

    monkeypatch.setattr(pydantic_schema, "arguments", arguments)
    for function in (add, mixed):
        arguments_schema(signature.read(function, (), function.__name__), function.__name__)
    assert asked == ["mixed"]


def test_the_form_of_plain_arguments_is_pydantic_s() -> None:
    form = Codec.of(add, context_types=(), kind="add", limit=1000).json_schema()
    assert form["title"] == "Arguments"
    assert form["required"] == ["a", "b"]
    assert form["additionalProperties"] is False


def test_an_annotation_without_a_type_is_any() -> None:
    def handler(a, b=2):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - as users may write it
        return a, b

    read = signature.read(handler, (), "handler")
    assert {item.annotation for item in read.arguments.values()} == {Any}
    assert read.returns is inspect.Parameter.empty
    assert Codec.of(handler, context_types=(), kind="handler", limit=1000).decode('{"a":[1,"x"]}') == {"a": [1, "x"]}
