"""Retention rules: how long finished jobs stay, by kind and final state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rowlock.errors import InvalidOption
from rowlock.model.state import FINAL
from rowlock.model.times.duration import duration

if TYPE_CHECKING:
    from datetime import timedelta

    from rowlock.model.options import Span

EVERY: Final = "*"
"""Stands for every kind or every final state."""
Source = Literal["code", "deployment"]


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """How long finished jobs stay; * stands for every kind or state. Of several that fit, the most specific decides.

    keep: the time that counts. declared: the time that code or settings say, None: they say none. ordered: the time
    that was set for this deployment, which comes first; None: none was.
    """

    kind: str
    state: str
    keep: timedelta
    declared: timedelta | None = None
    ordered: timedelta | None = None

    @property
    def source(self) -> Source:
        """Where `keep` comes from: the code, its settings included, or an order for this deployment."""
        return "code" if self.ordered is None else "deployment"


def checked_state(state: str) -> str:
    """A final state, or *."""
    if state != EVERY and state not in FINAL:
        known = ", ".join(sorted(FINAL))
        message = f"Retention is for final states: {known}, or * for all; got {state!r}."
        raise InvalidOption(message)
    return str(state)


def checked_keep(keep: Span) -> timedelta:
    """A time from 0, which removes jobs as soon as they end, to a hundred years."""
    return duration(keep, "keep")


def rules_from_text(text: str) -> tuple[tuple[str, timedelta], ...]:
    """Read `14d`, for every state, or `completed=1d,failed=30d`."""
    rules = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        state, equals, keep = part.rpartition("=")
        rules.append((checked_state(state.strip() if equals else EVERY), checked_keep(keep.strip())))
    states = [state for state, _ in rules]
    if len(states) != len(set(states)):
        message = f"Each state may be given once; got {text!r}."
        raise InvalidOption(message)
    return tuple(rules)
