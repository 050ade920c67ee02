"""Old names of settings and fields with the names that replaced them. Every input accepts both; outputs use the new."""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from rowlock.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")

RENAMED_LANE_FIELDS: Final[Mapping[str, str]] = {
    "poll": "poll_interval",
    "poll_s": "poll_interval",
    "poll_every": "poll_interval",
    "stale": "heartbeat_timeout",
    "stale_s": "heartbeat_timeout",
    "stale_after": "heartbeat_timeout",
    "stall": "progress_timeout",
    "stall_s": "progress_timeout",
    "stall_after": "progress_timeout",
    "age": "aging_interval",
    "age_s": "aging_interval",
    "age_every": "aging_interval",
    "ordering": "order",
}
"""Settings of a lane."""

RENAMED_DURATIONS: Final[Mapping[str, str]] = {
    f"{name}_s": name
    for name in (
        "every",
        "expires_in",
        "lasting",
        "longer_than",
        "max_age",
        "max_wait",
        "per",
        "run_in",
        "timeout",
        "window",
    )
}
"""Durations in request bodies and queries, which once ended in _s."""


def current_names(values: Mapping[str, V], renamed: Mapping[str, str]) -> dict[str, V]:
    """`values` under today's names; InvalidOption when one setting comes under two names."""
    written: dict[str, str] = {}
    for name in values:
        new = renamed.get(name, name)
        if new in written:
            message = f"{written[new]} and {name} are one setting, now called {new}. Give {new} alone."
            raise InvalidOption(message)
        written[new] = name
    return {new: values[name] for new, name in written.items()}


def accepts_old_names(renamed: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a function: keywords under an old name still work, with a DeprecationWarning at the caller's line."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        own = frozenset(inspect.signature(function).parameters)
        replaced = {old: new for old, new in renamed.items() if new in own and old not in own}

        @functools.wraps(function)
        def accepting(*args: P.args, **kwargs: P.kwargs) -> R:
            old = replaced.keys() & kwargs.keys()
            if not old:
                return function(*args, **kwargs)
            for name in sorted(old):
                warnings.warn(f"{name}= is now called {replaced[name]}=.", DeprecationWarning, stacklevel=2)
            return function(*args, **cast("Any", current_names(kwargs, replaced)))

        return accepting

    return decorate
