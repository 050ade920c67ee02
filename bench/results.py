"""Readings, and what several of them say together."""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QUIET_ENOUGH: Final = 0.35
"""Foreign cores above which a reading is left out, when a quieter one of the same thing exists."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One subject in one scene, once. noise: foreign cores meanwhile; problem: why there are no values."""

    subject: str
    scene: str
    round: int
    values: dict[str, float] = field(default_factory=dict)
    noise: float = 0.0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """Several readings of one value."""

    median: float
    low: float
    high: float
    count: int


@dataclass(slots=True)
class Results:
    """A whole run. subjects: name to version, settings, lacks and, where it is missing, problem."""

    machine: dict[str, str]
    subjects: dict[str, dict[str, str]]
    readings: list[Reading] = field(default_factory=list)
    kept_in: Path | None = None
    """Written with every reading: a run of hours that is cut off has its figures all the same."""
    first_round: int = 0
    """Rounds of earlier runs come before those of this one."""

    def add(self, reading: Reading) -> None:
        """Keep one more."""
        self.readings.append(replace(reading, round=reading.round + self.first_round))
        if self.kept_in is not None:
            self.save(self.kept_in)

    def go_on_from(self, earlier: Results) -> None:
        """Take over the readings of an earlier run of the same machine; ratios are taken within each run's rounds."""
        self.readings = [*earlier.readings, *self.readings]
        self.subjects = {**earlier.subjects, **self.subjects}
        self.machine["earlier"] = "; ".join(
            earlier.machine[key] for key in ("earlier", "command") if earlier.machine.get(key)
        )
        self.first_round = 1 + max((reading.round for reading in earlier.readings), default=-1)

    def of(self, scene: str, subject: str) -> list[Reading]:
        """The readings to judge by: the quiet ones where there are any."""
        found = [r for r in self.readings if (r.scene, r.subject) == (scene, subject) and r.problem is None]
        return [r for r in found if r.noise <= QUIET_ENOUGH] or found

    def spread(self, scene: str, subject: str, value: str) -> Spread | None:
        """One value over the rounds; None: it was never measured."""
        numbers = [r.values[value] for r in self.of(scene, subject) if value in r.values]
        return spread(numbers)

    def ratio(self, scene: str, subject: str, other: str, value: str = "rate") -> Spread | None:
        """One subject over another, round by round where both have the round, a drifting machine cancels out."""
        ours = {r.round: r.values[value] for r in self.of(scene, subject) if value in r.values}
        theirs = {r.round: r.values[value] for r in self.of(scene, other) if value in r.values}
        both = [ours[n] / theirs[n] for n in sorted(ours.keys() & theirs.keys()) if theirs[n]]
        if not both and ours and theirs:
            both = [statistics.median(ours.values()) / statistics.median(theirs.values())]
        return spread(both)

    def problem(self, scene: str, subject: str) -> str | None:
        """Why a subject has no value in a scene."""
        found = [r.problem for r in self.readings if (r.scene, r.subject) == (scene, subject) and r.problem]
        return found[0] if found else self.subjects.get(subject, {}).get("problem")

    def save(self, path: Path) -> None:
        """Write everything as JSON."""
        kept = {"machine": self.machine, "subjects": self.subjects, "readings": [asdict(one) for one in self.readings]}
        path.write_text(json.dumps(kept, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what save() wrote."""
        raw: dict[str, Any] = json.loads(path.read_text())
        return cls(raw["machine"], raw["subjects"], [Reading(**reading) for reading in raw["readings"]])


_TOLD: Final = ("rate", "commit_p50", "commit_p99", "call_p50", "statements", "rss_mb", "claim_blocks")


def tell(reading: Reading) -> Reading:
    """Say what was read, as progress, and return it."""
    shown = " ".join(f"{key}={reading.values[key]:.4g}" for key in _TOLD if key in reading.values)
    about = reading.problem or f"{shown} noise={reading.noise:.2f}"
    say(f"{reading.round + 1} {reading.scene:<8} {reading.subject:<14} {about}")
    return reading


def say(text: str) -> None:
    """Progress goes to standard error; the report alone to standard output."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def spread(numbers: Sequence[float]) -> Spread | None:
    """Median and extremes; None of nothing."""
    if not numbers:
        return None
    return Spread(statistics.median(numbers), min(numbers), max(numbers), len(numbers))


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the others lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
