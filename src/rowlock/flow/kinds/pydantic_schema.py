"""Schemas of annotations that only pydantic itself can read; imported when a kind first needs it (see schema.py)."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, cast

import typing_extensions
from pydantic import ConfigDict, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import override

from rowlock.errors import ConfigurationError
from rowlock.flow.kinds.schema_traits import traits_of
from rowlock.flow.kinds.signature import ARGUMENTS_TITLE, EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from inspect import Parameter

    from pydantic_core import CoreSchema

    from rowlock.model.kind import UnknownArgs

_UNUSABLE: Final = (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError)


def arguments(parameters: Mapping[str, Parameter], kind: str, *, unknown: UnknownArgs = "refuse") -> TypeAdapter[Any]:
    """The adapter of arguments by name; ConfigurationError names the one that cannot be stored."""
    fields: dict[str, object] = {}
    for name, parameter in parameters.items():
        try:
            traits_of(TypeAdapter(parameter.annotation).core_schema)  # an undefined name shows only here
        except _UNUSABLE as error:
            expected = inspect.formatannotation(parameter.annotation)
            message = (
                f"{kind}: argument {name!r} is annotated with {expected}, which pydantic cannot turn into JSON: "
                f"{str(error).splitlines()[0]} Use plain types, dataclasses or pydantic models, or have the worker "
                f"provide it: Annotated[{expected}, Depends(…)]."
            )
            raise ConfigurationError(message) from None
        required = parameter.default is EMPTY
        wrapper: Any = typing_extensions.Required if required else typing_extensions.NotRequired
        fields[name] = wrapper[parameter.annotation]
    make = cast("Callable[[str, dict[str, object]], Any]", typing_extensions.TypedDict)
    named = make(ARGUMENTS_TITLE, fields)
    named.__pydantic_config__ = ConfigDict(extra="forbid" if unknown == "refuse" else "ignore")
    return TypeAdapter(named)


def result(annotation: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type
    """The adapter of a handler's return annotation."""
    # An annotation that pydantic cannot use is no reason to refuse the handler: most results are plain values.
    try:
        adapter = TypeAdapter[Any](annotation)
        traits_of(adapter.core_schema)
    except _UNUSABLE:
        return TypeAdapter(Any)
    return adapter


def json_schema(parameters: Mapping[str, Parameter], kind: str) -> dict[str, object]:
    """The JSON Schema of arguments by name, for forms; an argument it cannot describe may be any value."""
    return arguments(parameters, kind).json_schema(schema_generator=_FormSchema)


def by_its_own_type(value: object) -> object:
    """Encode a value that only its own type's schema can encode, such as IP addresses before pydantic 2.14."""
    try:
        adapter = TypeAdapter(type(value))
    except PydanticSchemaGenerationError:
        message = f"Unable to serialize unknown type: {type(value)}"
        raise ValueError(message) from None
    return adapter.dump_python(value, mode="json")


class _FormSchema(GenerateJsonSchema):
    """Describes an argument that has no JSON Schema as any value, instead of failing the whole form."""

    @override
    def handle_invalid_for_json_schema(self, schema: CoreSchema, error_info: str) -> dict[str, object]:
        return {}
