"""How much is tried: a little and always the same, or as much and as fresh as somebody asks for.

ROWLOCK_FUZZ_EXAMPLES is the number of examples of each test; `make fuzz` sets it, and prints the seed.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

LONG: Final = "ROWLOCK_FUZZ_EXAMPLES" in os.environ
"""Only then is there time for fresh seeds."""

PATIENCE: Final = 0 if LONG else 120
"""Seconds for one test; 0: as many as it takes."""


def examples(few: int) -> int:
    """So many, or as many as were asked for."""
    return int(os.environ["ROWLOCK_FUZZ_EXAMPLES"]) if LONG else few


def tried(few: int) -> settings:
    """few: examples of every run."""
    return settings(
        max_examples=examples(few),
        derandomize=not LONG,
        database=None,
        deadline=None,
        print_blob=True,
        # Shrinking takes its time: whoever looks for the shortest form runs the long mode.
        phases=[Phase.explicit, Phase.generate, Phase.shrink] if LONG else [Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
