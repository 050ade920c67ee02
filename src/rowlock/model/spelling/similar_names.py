"""Suggestions for a name that is not known: "Did you mean …?"."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def closest(word: str, known: Iterable[str], n: int = 1) -> list[str]:
    """The n known names most similar to the word, the best first; empty if all differ too much."""
    # Imported here: most processes never meet a wrong name.
    import difflib  # noqa: PLC0415

    return difflib.get_close_matches(word, list(known), n=n)
