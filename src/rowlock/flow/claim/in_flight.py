"""ClaimsInFlight: whether the database may know of claims that this process does not know of."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHECKS: Final = 2
"""Disown checks after a lost answer: the claim may commit on the server after the first."""


class ClaimsInFlight:
    """Claims whose jobs have no slot here yet. Changed on the worker's loop, read in the heartbeat's thread."""

    def __init__(self) -> None:
        self._sent = 0
        self._checks_due = 0

    def __bool__(self) -> bool:
        """Whether a claim is under way: a list of the jobs this process holds would not be complete."""
        return self._sent > 0

    @property
    def answer_lost(self) -> bool:
        """Whether the answer to a claim was lost, and its jobs have to be looked for and given back."""
        return self._checks_due > 0

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Around a claim, from before it is sent until its jobs have their slots. A failure counts as a lost answer."""
        self._sent += 1
        try:
            yield
        except BaseException:
            # The claim may have been made and only its answer lost.
            self.lose_answer()
            raise
        finally:
            self._sent -= 1

    def lose_answer(self) -> None:
        """Note that a claim may have been made although its answer did not come."""
        self._checks_due = _CHECKS

    def checked(self) -> None:
        """Note that claims without an answer were looked for once."""
        self._checks_due = max(0, self._checks_due - 1)
