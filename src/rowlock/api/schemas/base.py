"""Base classes of request bodies and answers, and how a duration is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import PydanticCustomError, core_schema
from typing_extensions import override

from rowlock.errors import InvalidOption
from rowlock.model.duration import duration
from rowlock.model.renamed import RENAMED_DURATIONS, RENAMED_LANE_FIELDS, current_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from pydantic.json_schema import JsonSchemaValue

RENAMED: Final[Mapping[str, str]] = {**RENAMED_LANE_FIELDS, **RENAMED_DURATIONS}
"""Old names of body fields and query parameters, still accepted and no longer documented."""
DAY: Final = 86_400.0
YEAR: Final = 366 * DAY
_LONGEST_TEXT: Final = 100


class Answer(BaseModel):
    """The body of an answer. Every field is always present."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class Body(BaseModel):
    """The body of a request. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")
    renamed: ClassVar[Mapping[str, str]] = {}

    @classmethod
    @override
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Look up once which old names its fields had."""
        super().__pydantic_init_subclass__(**kwargs)
        fields = cls.model_fields
        cls.renamed = {old: new for old, new in RENAMED.items() if new in fields and old not in fields}

    @model_validator(mode="before")
    @classmethod
    def _read_old_names(cls, values: object) -> object:
        return current_names(values, cls.renamed) if isinstance(values, dict) else values


def doc(text: str, *example: object, **constraints: Any) -> Any:  # noqa: ANN401 - pydantic's Field
    """A pydantic Field with the description and the example that the OpenAPI document needs.

    A field that refers to another schema needs no example: the document composes it.
    """
    return Field(description=text, examples=list(example) or None, **constraints)


@dataclass(frozen=True, slots=True)
class DurationInput:
    """Makes a float field read a duration: a number of seconds, or a text such as "30s", "1h30m" or "PT10M"."""

    minimum: float = 0.0
    maximum: float = 10 * YEAR

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> core_schema.CoreSchema:
        """Text becomes seconds before the limits are checked."""
        number = core_schema.float_schema(ge=self.minimum, le=self.maximum, allow_inf_nan=False)
        return core_schema.no_info_before_validator_function(_seconds, number)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A number or a text."""
        number = {"type": "number", "minimum": self.minimum, "maximum": self.maximum}
        text = {"type": "string", "minLength": 1, "maxLength": _LONGEST_TEXT}
        about = {name: value for name, value in handler(schema).items() if name in ("description", "examples")}
        return {**about, "anyOf": [number, text]}


def _seconds(value: object) -> object:
    if not isinstance(value, (str, bool)):
        return value
    try:
        return duration(value[: _LONGEST_TEXT + 1] if isinstance(value, str) else value).total_seconds()
    except InvalidOption as error:
        # Its message begins with the option's name, which the pointer names too.
        raise PydanticCustomError(
            "duration", "{why}", {"why": str(error).removeprefix("duration: ").rstrip(".")}
        ) from None


def seconds(span: timedelta | None) -> float | None:
    """A duration as answers show it; None stays None."""
    return None if span is None else span.total_seconds()
