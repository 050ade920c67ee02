"""ChildLimits: how long a worker's child processes live and what they may use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowlock.settings import Settings


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """From the settings."""

    patience: float
    """Seconds from the request to stop until the child is killed."""
    jobs: int
    """Jobs after which a child is replaced."""
    memory: int | None
    """Bytes above which an idle child is replaced; None: no limit."""
    suspects: int
    """Suspects that run at once: a lost worker may leave hundreds behind."""
    max_deaths: int
    """Deaths of its process after which a job is quarantined."""

    @classmethod
    def of(cls, settings: Settings) -> ChildLimits:
        """As the settings say."""
        return cls(
            patience=settings.stop_patience.total_seconds(),
            jobs=settings.child_jobs,
            memory=settings.child_memory,
            suspects=max(2, os.cpu_count() or 2),
            max_deaths=settings.max_losses,
        )
