"""What a core schema says about its values, so that most of them are encoded without a walk."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, Any

import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, Secret, SecretBytes, SecretStr, TypeAdapter, computed_field

from rowlock.flow.kinds.schema_traits import SchemaTraits, traits_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(enum.Enum):
    ONE = (1, 2)


class Account(BaseModel):
    name: str
    opened: datetime | None = None
    password: SecretStr | None = None


class Renamed(BaseModel):
    inner: int = Field(validation_alias="Inner", serialization_alias="INNER")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return self.inner * 2


class Small(BaseModel):
    number: int


class Open(typing_extensions.TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]  # pydantic's way to configure a TypedDict
    kept: int


class Partly(typing_extensions.TypedDict):
    kept: int
    dropped: Annotated[int, Field(exclude=True)]


_OTHER = SchemaTraits(simple=False, flat=False, aliased=False, secret=False)
_SECRET = SchemaTraits(simple=False, flat=False, aliased=False, secret=True)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, SchemaTraits(simple=True, flat=True, aliased=False, secret=False)),
        (dict[str, list[Colour | None]], SchemaTraits(simple=True, flat=True, aliased=False, secret=False)),
        (Small, SchemaTraits(simple=True, flat=False, aliased=False, secret=False)),
        (Open, SchemaTraits(simple=True, flat=False, aliased=False, secret=False)),
        (Partly, SchemaTraits(simple=True, flat=False, aliased=False, secret=False)),
        (datetime, _OTHER),
        (Any, _OTHER),
        (bytes, _OTHER),
        (Pair, _OTHER),
        (dict[bytes, int], _OTHER),
        (Renamed, SchemaTraits(simple=False, flat=False, aliased=True, secret=False)),
        (Account, _SECRET),
        (SecretStr, _SECRET),
        (SecretBytes, _SECRET),
        (Secret[int], _SECRET),
    ],
)
def test_the_schema_tells_which_values_need_a_walk(annotation: type[object], expected: SchemaTraits) -> None:
    assert traits_of(TypeAdapter(annotation).core_schema) == expected
