"""RouteChoice: some of the routes, by their names, for a host that does not want all of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rowlock.errors import ConfigurationError
from rowlock.model.spelling.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NAME: Final = re.compile(r"(?:([A-Z]+) +)?(/\S*)")
_PARAMETER: Final = re.compile(r"\{\w+\}|:\w+")


class RouteChoice:
    """Routes by `GET /jobs`, `/jobs` (every method), `/jobs/{id}` (any name of the parameter), `/admin/workers/*`."""

    def __init__(self, wanted: Sequence[str]) -> None:
        if not wanted:
            message = 'Name at least one route, such as "GET /jobs". `router` has all of them.'
            raise ConfigurationError(message)
        self._wanted = {name: _read(name) for name in wanted}

    def takes(self, method: str, path: str) -> bool:
        """Whether one of the names is that of this route."""
        return any(_fits(each, method, path) for each in self._wanted.values())

    def require_all(self, routes: Iterable[tuple[str, str]]) -> None:
        """Refuse a name that none of these routes has."""
        known = list(routes)
        for name, pattern in self._wanted.items():
            if not any(_fits(pattern, *route) for route in known):
                there = {f"{method} {path}" for method, path in known}
                hint = closest(name, sorted(there | {path for _, path in known}))
                meant = f" (did you mean {hint[0]}?)" if hint else ""
                message = f"There is no route {name!r}{meant}. docs/reference/rest.md lists the routes."
                raise ConfigurationError(message)


def _read(name: str) -> tuple[str | None, str]:
    match = _NAME.fullmatch(name.strip())
    if match is None:
        message = f'A route is named like "GET /jobs" or "/admin/workers/*"; got {name!r}.'
        raise ConfigurationError(message)
    return match[1], _PARAMETER.sub("{}", match[2])


def _fits(pattern: tuple[str | None, str], method: str, path: str) -> bool:
    wanted, text = pattern
    plain = _PARAMETER.sub("{}", path)
    same = plain.startswith(text[:-1]) if text.endswith("*") else plain == text
    return same and wanted in (None, method)
