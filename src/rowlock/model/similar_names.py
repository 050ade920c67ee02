"""Closest: what somebody may have meant by a name that is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def closest(word: str, known: Iterable[str], n: int = 1) -> list[str]:
    """The n names most like the word, the best one first; none if all are too different."""
    # A process that meets no wrong name does without it.
    import difflib  # noqa: PLC0415

    return difflib.get_close_matches(word, list(known), n=n)
