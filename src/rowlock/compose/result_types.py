"""Fit: can what one step returns be what another takes? Judged by annotations; in doubt, yes."""

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
    """What a handler with this return annotation leaves behind: without Partial, Snooze and Cancel."""
    if annotation in (None, NoneType):
        return NoneType
    return Any if annotation is EMPTY else stored_result(annotation)


def returns_nothing(annotation: object) -> bool:
    """Whether there is surely no result to pass on."""
    return annotation in (None, NoneType)


def fits(given: object, taken: object) -> bool:
    """False when a value of the one annotation can surely not be read as the other."""
    given, taken = _bare(given), _bare(taken)
    if _says_nothing(given) or _says_nothing(taken) or given == taken:
        return True
    if _is_union(given):
        return all(fits(each, taken) for each in get_args(given))
    if _is_union(taken):
        return any(fits(given, each) for each in get_args(taken))
    mine, theirs = _sort(given), _sort(taken)
    if mine is None or theirs is None:
        return True
    return mine == theirs and _inside(mine, given, taken)


def _inside(sort: str, given: object, taken: object) -> bool:
    """Of the same sort: look closer."""
    one, other = _class(given), _class(taken)
    if sort == "number":
        return one is not None and other is not None and _rank(one) <= _rank(other)
    if sort == "list":
        elements, wanted = _elements(given), _elements(taken)
        return elements is None or wanted is None or fits(elements, wanted)
    if sort == "object" and _is_made(one) and _is_made(other):
        return one is not None and other is not None and issubclass(one, other)
    return True


def _rank(cls: type) -> int:
    return next(n for n, number in enumerate(_NUMBERS) if issubclass(cls, number))


def _bare(annotation: object) -> object:
    while get_origin(annotation) is typing.Annotated:
        annotation = get_args(annotation)[0]
    supertype = getattr(annotation, "__supertype__", None)  # NewType
    return NoneType if annotation is None else annotation if supertype is None else _bare(supertype)


def _says_nothing(annotation: object) -> bool:
    return annotation in (Any, object, EMPTY) or isinstance(annotation, (typing.TypeVar, str, typing.ForwardRef))


def _is_union(annotation: object) -> bool:
    return get_origin(annotation) in (typing.Union, UnionType)


def _class(annotation: object) -> type | None:
    origin = get_origin(annotation) or annotation
    return origin if inspect.isclass(origin) else None


def _is_made(cls: type | None) -> bool:
    return cls is not None and (hasattr(cls, "__pydantic_core_schema__") or is_dataclass(cls))


def _elements(annotation: object) -> object | None:
    """What a list holds; None: it is not said, or differs from place to place."""
    args = get_args(annotation)
    if _class(annotation) is tuple:
        return args[0] if len(args) == 2 and args[1] is Ellipsis else None  # noqa: PLR2004 - tuple[int, ...]
    return args[0] if len(args) == 1 else None


def _sort(annotation: object) -> str | None:
    """What JSON makes of it; None: that takes more than a look."""
    cls = _class(annotation)
    if cls is NoneType:
        return "null"
    if cls is None or issubclass(cls, Enum) or get_origin(annotation) is typing.Literal:
        return None
    for sort, classes in (("number", _NUMBERS), ("text", _TEXTS), ("list", _LISTS)):
        if issubclass(cls, classes):
            return sort
    if is_typeddict(cls) or _is_made(cls) or issubclass(cls, Mapping):
        return "object"
    return None


def shown(annotation: object) -> str:
    """An annotation as people write it."""
    return "None" if annotation is NoneType else inspect.formatannotation(annotation)
