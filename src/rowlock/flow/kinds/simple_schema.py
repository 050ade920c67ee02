"""Plain: the core schemas of annotations that anybody can read.

pydantic's core checks, reads and writes values; the rest of pydantic turns annotations into schemas for it, and takes a
tenth of a second and six megabytes to import. A process whose kinds take and return plain values does without the rest.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Union, cast, get_args, get_origin
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from inspect import Parameter

    from pydantic_core import CoreSchema

    from rowlock.model.kind import UnknownArgs

TITLE: Final = "Arguments"
"""What pydantic's own messages call them."""
_NONE: Final = (None, NoneType)
_WORDS: Final = (
    (int, "int"),
    (str, "str"),
    (bool, "bool"),
    (float, "float"),
    (UUID, "uuid"),
    (None, "none"),
    (NoneType, "none"),
    (Any, "any"),
)


def schema_of(annotation: object) -> CoreSchema | None:
    """The very schema that pydantic makes of a plain annotation; None: ask pydantic."""
    found = _schema(annotation)
    return None if found is None else cast("CoreSchema", found)


def arguments_schema(
    arguments: Mapping[str, Parameter], *, unknown: UnknownArgs, required: frozenset[str]
) -> CoreSchema | None:
    """The schema of arguments by name, if all of them are plain."""
    extra = "forbid" if unknown == "refuse" else "ignore"
    fields: dict[str, object] = {}
    for name, parameter in arguments.items():
        found = _schema(parameter.annotation)
        if found is None:
            return None
        fields[name] = {"type": "typed-dict-field", "schema": found, "required": name in required}
    config = {"title": TITLE, "extra_fields_behavior": extra}
    return cast("CoreSchema", {"type": "typed-dict", "fields": fields, "extra_behavior": extra, "config": config})


def _schema(annotation: object) -> dict[str, object] | None:
    word = next((word for known, word in _WORDS if annotation is known), None)
    if word is not None:
        return {"type": word}
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        others = [member for member in args if member not in _NONE]
        return _around("nullable", schema=others[0]) if len(others) == 1 else None
    if origin is list or annotation is list:
        return _around("list", items_schema=args[0] if args else Any)
    if origin is dict or annotation is dict:
        keys, values = args or (Any, Any)
        return _around("dict", keys_schema=keys, values_schema=values)
    return None


def _around(sort: str, **inner: object) -> dict[str, object] | None:
    """A schema that holds others; None if one of them is not plain."""
    found = {name: _schema(annotation) for name, annotation in inner.items()}
    return None if None in found.values() else {"type": sort, **found}
