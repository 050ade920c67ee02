"""SchemaTraits: what a pydantic core schema says about the values that will be encoded with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

# Schemas made only of these hold no secret, no bytes and no datetime, and need no walk through the value.
# fmt: off
_SIMPLE: Final = frozenset({
    "int", "str", "bool", "float", "none", "uuid", "date", "decimal", "timedelta", "literal", "enum", "nullable",
    "union", "list", "tuple", "dict", "set", "frozenset", "default", "definitions", "definition-ref", "typed-dict",
    "typed-dict-field", "model", "model-fields", "model-field", "dataclass", "dataclass-args", "dataclass-field",
})
# fmt: on
_CLASSES: Final = frozenset({"model", "dataclass"})
_OMITTING: Final = frozenset({"serialization_exclude", "serialization_exclude_if"})


@dataclass(frozen=True, slots=True)
class SchemaTraits:
    """What is known about all values of a schema, so that encoding can take the shortest way."""

    simple: bool
    flat: bool  # simple, and python mode leaves its values as they are: no models, nothing left out or let in
    aliased: bool
    secret: bool  # over-approximated by name: when in doubt, error messages keep values to themselves


def traits_of(schema: object) -> SchemaTraits:
    """Read the traits of a core schema; an unknown node counts as not simple."""
    sorts: set[str] = set()
    aliased = secret = partial = False
    for node in _nodes(schema):
        if isinstance(node, Mapping):
            sorts.add(_sort(node))
            aliased = aliased or "validation_alias" in node
            partial = partial or not _OMITTING.isdisjoint(node) or _lets_anything_in(node)
        else:
            secret = secret or "secret" in str(getattr(node, "__qualname__", "")).lower()
    simple = sorts <= _SIMPLE
    flat = simple and not partial and sorts.isdisjoint(_CLASSES)
    return SchemaTraits(simple=simple, flat=flat, aliased=aliased, secret=secret)


def _nodes(schema: object) -> Iterator[object]:
    pending, seen = [schema], set[int]()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Mapping):
            if "type" in node:
                yield node
            pending.extend(node.values())
        elif isinstance(node, list | tuple):
            pending.extend(node)
        elif callable(node):
            yield node


def _sort(node: Mapping[object, object]) -> str:
    sort = str(node["type"])
    if sort == "dict":
        keys = node.get("keys_schema")
        return sort if isinstance(keys, Mapping) and keys.get("type") in ("str", "int", "uuid") else "dict of others"
    if sort == "enum":
        members = node.get("members")
        scalar = isinstance(members, list) and all(isinstance(member.value, str | int) for member in members)
        return sort if scalar else "enum of others"
    return sort


def _lets_anything_in(node: Mapping[object, object]) -> bool:
    config = node.get("config")
    extra = config.get("extra_fields_behavior") if isinstance(config, Mapping) else None
    return "allow" in (node.get("extra_behavior"), extra)
