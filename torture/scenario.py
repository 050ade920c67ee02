"""Scenario: one nemesis. What it does to a stage under load, how long, and how soon all must be well again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, ClassVar

from torture.stage import RATE

if TYPE_CHECKING:
    from torture.stage import Stage


class Scenario:
    """The usual set: two workers and a producer; subclasses say what goes wrong."""

    name: ClassVar[str]
    does: ClassVar[str]
    """One line for the table."""
    bound: ClassVar[float]
    """Seconds from the fault's end until everything asked for before it is final."""
    why: ClassVar[str] = ""
    """Where the bound comes from."""
    seconds: ClassVar[tuple[float, float]] = (8.0, 60.0)
    """Of the fault: short, long."""
    after: ClassVar[float] = 3.0
    """Seconds of traffic after the fault has ended."""
    doomed: ClassVar[frozenset[str]] = frozenset()
    """Kinds that must end as failed."""
    dropped: ClassVar[frozenset[str]] = frozenset()
    """Kinds whose jobs somebody cancels."""
    rate: ClassVar[float] = RATE
    warm: ClassVar[int] = 40
    """Jobs completed before the fault begins, at most."""
    true_clock: ClassVar[bool] = True
    """False: the server's clock is part of the fault, so its times say nothing of how long things took."""
    needs: ClassVar[str] = ""
    """A program without which it cannot run."""
    forgotten: tuple[float, float] | None = None
    """Moments between which the server acknowledged what it has forgotten since."""

    def lacks(self) -> str:
        """Why it cannot be run on this machine; empty: it can."""
        return f"{self.needs} is not installed" if self.needs and shutil.which(self.needs) is None else ""

    async def set_up(self, stage: Stage) -> None:
        """Start workers and producers."""
        for _ in range(2):
            stage.worker()
        await stage.up(2)
        stage.producer(self.rate)

    async def torment(self, stage: Stage, seconds: float) -> None:
        """Do harm for about so long; when it returns, the fault is over."""
        raise NotImplementedError

    async def judge(self, stage: Stage) -> list[str]:
        """What else is wrong in the end, as sentences."""
        del stage
        return []

    async def tear_down(self, stage: Stage) -> None:
        """Leave the server as it was found."""
