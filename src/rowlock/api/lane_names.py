"""LaneNames: the names that a deployment gives the fields of lanes, beside Rowlock's own."""

from __future__ import annotations

import dataclasses
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticCustomError

from rowlock.errors import ConfigurationError
from rowlock.model.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIXED: Final = ("name", "rate", "version", "updated_at")
_FIELDS: Final = {field.name: str(field.type) for field in dataclasses.fields(Lane) if field.name not in _FIXED}
_SECONDS: Final = {"_ms": 0.001, "_seconds": 1.0, "_minutes": 60.0, "_hours": 3600.0}
"""What a duration of that name is counted in."""


class LaneNames:
    """Further names for fields of lanes: read in bodies, and written in answers beside Rowlock's own."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """names: {"max_slots": "slots"}. A duration's name may end in _ms, _seconds, _minutes or _hours."""
        for name, field in names.items():
            if field not in _FIELDS or name in _FIELDS:
                message = f"lane_names: {name!r} cannot stand for {field!r}. The fields are {', '.join(_FIELDS)}."
                raise ConfigurationError(message)
        self._names = dict(names)

    def read(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body with Rowlock's names alone."""
        found: dict[str, Any] = {}
        for name, value in body.items():
            field = self._names.get(name, name)
            if field in found:
                text = "{name} and another name of {field} were given. Give one of them."
                raise PydanticCustomError("two_names", text, {"name": name, "field": field})
            found[field] = value if name == field else self._read(name, value)
        return found

    def _read(self, name: str, value: object) -> object:
        unit = self._unit(name)
        if unit is None or value is None:
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise PydanticCustomError("number", "{name} is a number", {"name": name})
        return value * unit

    def write(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """The answer with the further names, too."""
        return {**answer, **{name: self._written(name, answer[field]) for name, field in self._names.items()}}

    def _written(self, name: str, value: Any) -> object:  # noqa: ANN401 - JSON
        unit = self._unit(name)
        if unit is None or value is None:
            return value
        found = round(value / unit, 3)
        return int(found) if found == int(found) else found

    def _unit(self, name: str) -> float | None:
        """Seconds of one of the units that the name counts a duration in; None: the value stays as it is."""
        if "timedelta" not in _FIELDS[self._names[name]]:
            return None
        return next((seconds for suffix, seconds in _SECONDS.items() if name.endswith(suffix)), None)


LANE_NAMES: Final[ContextVar[LaneNames]] = ContextVar("lane_names", default=LaneNames({}))  # noqa: B039 - it never changes
"""The names of the API that answers the request, for the bodies that it reads."""
