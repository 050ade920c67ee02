"""Result types: whether one step's result can be another step's argument, judged by annotations; in doubt it can."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin
from uuid import UUID

from typing_extensions import is_typeddict

from rowlock.flow.kinds.schema import stored_result
from rowlock.flow.kinds.signature import EMPTY

_NUMBERS: Final = (bool, int, float)
"""A bool is an int and an int a float, and not the other way round."""
_TEXTS: Final = (str, UUID, date, time, timedelta, Decimal)
_LISTS: Final = (list, tuple, set, frozenset)


def result_of(annotation: object) -> object:
    """The type of the stored result of a handler with this return annotation: without Partial, Snooze and Cancel."""
    if annotation in (None, NoneType):
        return NoneType
    return Any if annotation is EMPTY else stored_result(annotation)


def returns_nothing(annotation: object) -> bool:
    """Whether the handler surely has no result to pass on."""
    return annotation in (None, NoneType)


def fits(given: object, taken: object) -> bool:
    """False if a value of the one annotation can surely not be read as the other."""
    given, taken = _bare(given), _bare(taken)
    if _is_anything(given) or _is_anything(taken) or given == taken:
        return True
    if _is_union(given):
        return all(fits(each, taken) for each in get_args(given))
    if _is_union(taken):
        return any(fits(given, each) for each in get_args(taken))
    mine, theirs = _json_type(given), _json_type(taken)
    if mine is None or theirs is None:
        return True
    return mine == theirs and _details_fit(mine, given, taken)


def _details_fit(json_type: str, given: object, taken: object) -> bool:
    """Compare two annotations of the same JSON type in detail."""
    one, other = _class(given), _class(taken)
    if json_type == "number":
        return one is not None and other is not None and _rank(one) <= _rank(other)
    if json_type == "list":
        elements, wanted = _elements(given), _elements(taken)
        return elements is None or wanted is None or fits(elements, wanted)
    if json_type == "object" and _is_model(one) and _is_model(other):
        return one is not None and other is not None and issubclass(one, other)
    return True


def _rank(cls: type) -> int:
    return next(n for n, number in enumerate(_NUMBERS) if issubclass(cls, number))


def _bare(annotation: object) -> object:
    while get_origin(annotation) is typing.Annotated:
        annotation = get_args(annotation)[0]
    supertype = getattr(annotation, "__supertype__", None)  # NewType
    return NoneType if annotation is None else annotation if supertype is None else _bare(supertype)


def _is_anything(annotation: object) -> bool:
    return annotation in (Any, object, EMPTY) or isinstance(annotation, (typing.TypeVar, str, typing.ForwardRef))


def _is_union(annotation: object) -> bool:
    return get_origin(annotation) in (typing.Union, UnionType)


def _class(annotation: object) -> type | None:
    origin = get_origin(annotation) or annotation
    return origin if inspect.isclass(origin) else None


def _is_model(cls: type | None) -> bool:
    return cls is not None and (hasattr(cls, "__pydantic_core_schema__") or is_dataclass(cls))


def _elements(annotation: object) -> object | None:
    """The type of a list's elements; None: unknown, or not one type."""
    args = get_args(annotation)
    if _class(annotation) is tuple:
        return args[0] if len(args) == 2 and args[1] is Ellipsis else None  # noqa: PLR2004 - tuple[int, ...]
    return args[0] if len(args) == 1 else None


def _json_type(annotation: object) -> str | None:
    """The JSON type of a value of this annotation; None: not decided by a look."""
    cls = _class(annotation)
    if cls is NoneType:
        return "null"
    if cls is None or issubclass(cls, Enum) or get_origin(annotation) is typing.Literal:
        return None
    for json_type, classes in (("number", _NUMBERS), ("text", _TEXTS), ("list", _LISTS)):
        if issubclass(cls, classes):
            return json_type
    if is_typeddict(cls) or _is_model(cls) or issubclass(cls, Mapping):
        return "object"
    return None


def shown(annotation: object) -> str:
    """An annotation as people write it."""
    return "None" if annotation is NoneType else inspect.formatannotation(annotation)
