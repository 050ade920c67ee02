"""Base classes of request bodies and answers, and how a duration is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import PydanticCustomError, core_schema
from typing_extensions import override

from rowlock.api.problems import TOO_DEEP
from rowlock.errors import InvalidOption
from rowlock.model.problem_codes import CODES
from rowlock.model.spelling.renamed import RENAMED_DURATIONS, RENAMED_LANE_FIELDS, current_names
from rowlock.model.stored_json import DEEPEST_REQUEST, nests_deeper
from rowlock.model.times.duration import duration

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
    def _refuse_deep(cls, values: object) -> object:
        if nests_deeper(values, DEEPEST_REQUEST):
            raise PydanticCustomError("too_deep", "{why}", {"why": TOO_DEEP})
        return values

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


class FieldErrorBody(BaseModel):
    """One part of a request that does not fit."""

    pointer: Annotated[str, doc("JSON pointer into the body, or the name of the parameter.", "#/priority")]
    detail: Annotated[str, doc("What is wrong with it.", "Input should be less than or equal to 100")]


class ProblemBody(BaseModel):
    """A problem as RFC 9457 defines it. `code` is stable; members after `request_id` are absent unless they apply."""

    type: Annotated[str, doc("URI of the kind of problem.", "urn:rowlock:problem:job-not-found")]
    title: Annotated[str, doc("The kind of problem in a few words.", "There is no such job")]
    status: Annotated[int, doc("The HTTP status.", 404)]
    detail: Annotated[str, doc("What went wrong and what to do.", "There is no job 363M-KAPQ-NW11-0P.")]
    instance: Annotated[str, doc("Path of the request.", "/api/v1/jobs/363M-KAPQ-NW11-0P")]
    code: Annotated[str, doc("Stable code for programs.", "job-not-found", json_schema_extra={"enum": sorted(CODES)})]
    request_id: Annotated[str | None, doc("Id of the request in logs and audit; null: none was given.", "7d1f0c")]
    errors: Annotated[list[FieldErrorBody] | None, doc("Every part of the request that does not fit.")] = None
    current_state: Annotated[str | None, doc("State of the job that does not allow the order.", "completed")] = None
    allowed: Annotated[list[str] | None, doc("Orders that this state allows.", ["retry"])] = None
    permission: Annotated[str | None, doc("Permission that is missing.", "jobs:cancel")] = None
    current: Annotated[dict[str, Any] | None, doc("What it is now, when it changed meanwhile.", {"version": 4})] = None
    job_id: Annotated[str | None, doc("Public id of the job that holds the key.", "363M-KAPQ-NW11-0P")] = None
    position: Annotated[int | None, doc("Character of the search at which it is wrong.", 7)] = None
    suggestion: Annotated[str | None, doc("What may have been meant.", "state:failed")] = None
