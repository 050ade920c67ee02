"""A short check that speed was not spent unseen: Rowlock against the minimal loop, in turn, in the same minute.

    python -m bench.guard             compare with bench/baseline.json; exit code 1 when a ratio dropped by a quarter
    python -m bench.guard --record    write the baseline instead

Only ratios are compared: a slow or busy machine slows both. A ratio counts as dropped when both the median of the
rounds and the ratio of the best rounds are a quarter below the baseline, and once more in a second run with as many
rounds: neighbours on the machine spoil one of them easily, all four hardly ever.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import environments, roster, scenes
from bench import server as servers
from bench.results import say
from bench.stage import Failed, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BASELINE: Final = Path(__file__).with_name("baseline.json")
DROP: Final = 0.75
"""A quarter less fails."""
_LEAST: Final = 3
"""Rounds, whatever the time."""
_MOST: Final = 9
_SIZE: Final = replace(scenes.QUICK, backlog=0.3, longest=20.0, gauged=False)
_SINGLES: Final = 1000


def drains(stage: Stage, number: int) -> dict[str, float]:
    """Rates of both, one after the other; who comes first changes from round to round."""
    order = [roster.ROWLOCK, roster.MINIMAL][:: 1 if number % 2 else -1]
    return {subject.name: scenes.drain_one(stage, subject, _SIZE)["rate"] for subject in order}


def enqueues(stage: Stage, _number: int) -> dict[str, float]:
    """Rates of both, block by block in one process."""
    with stage.play(roster.MINIMAL) as other:
        extra = {"other": stage.server.at(other.tag)}
        with stage.play(roster.ROWLOCK, extra=extra) as play:
            return play.call("alternate", "--jobs", str(_SINGLES), module="bench.asking")


SCENES: Final = {"drain": drains, "enqueue": enqueues}


@dataclass(frozen=True, slots=True)
class Ratio:
    """Rowlock over the minimal loop: median of the rounds, and best round over best round."""

    median: float
    best: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Ratio:
        """From rates, Rowlock's first."""
        return cls(
            statistics.median(ours / theirs for ours, theirs in pairs),
            max(ours for ours, _ in pairs) / max(theirs for _, theirs in pairs),
        )

    def dropped(self, baseline: float) -> bool:
        """Whether both say that a quarter is gone."""
        return max(self.median, self.best) < baseline * DROP


def measure(stage: Stage, seconds: float) -> dict[str, Ratio]:
    """As many rounds as fit into the time."""
    pairs: dict[str, list[tuple[float, float]]] = {scene: [] for scene in SCENES}
    deadline, longest = time.monotonic() + seconds, 0.0
    for number in range(_MOST):
        began = time.monotonic()
        if number >= _LEAST and began + longest > deadline:
            break
        for scene in SCENES:
            rates = SCENES[scene](stage, number)
            pairs[scene].append((rates["rowlock"], rates["minimal"]))
            say(f"round {number + 1}, {scene}: {rates['rowlock']:,.0f} against {rates['minimal']:,.0f} jobs/s")
        longest = max(longest, time.monotonic() - began)
    return {scene: Ratio.of(found) for scene, found in pairs.items()}


def verdicts(found: Mapping[str, Ratio], baseline: Mapping[str, float]) -> list[str]:
    """A line for every ratio that dropped."""
    return [
        f"{scene}: Rowlock now runs at {ratio.median:.2f} of the minimal loop (best rounds: {ratio.best:.2f}); the "
        f"baseline is {baseline[scene]:.2f}, and below {baseline[scene] * DROP:.2f} is too slow."
        for scene, ratio in found.items()
        if ratio.dropped(baseline[scene])
    ]


def judge(stage: Stage, baseline: Mapping[str, float], seconds: float) -> int:
    """The exit code; measures a second time before it says that something became slow."""
    found = measure(stage, seconds)
    slow = verdicts(found, baseline)
    if slow:
        say("\n".join([*slow, "Measured once more, since a busy machine can do this."]))
        again = measure(stage, seconds)
        slow = [line for line in verdicts(again, baseline) if line.split(":")[0] in {s.split(":")[0] for s in slow}]
        found = again
    for scene, ratio in found.items():
        about = f"best rounds {ratio.best:.2f}, baseline {baseline[scene]:.2f}"
        say(f"{scene}: {ratio.median:.2f} of the minimal loop ({about})")
    if slow:
        said = (
            "Twice in a row. Find what became slower with `make bench ARGS='--peers own'`; if the price is wanted, "
            "record a new baseline on a quiet machine with `make bench-guard ARGS=--record` and say why in the commit."
        )
        say("\n".join([*slow, said]))
    return 1 if slow else 0


def record(stage: Stage, seconds: float) -> None:
    """Write the medians as the new baseline."""
    found = {scene: round(ratio.median, 3) for scene, ratio in measure(stage, seconds).items()}
    BASELINE.write_text(json.dumps(found, indent=2) + "\n")
    say(f"recorded {found}")


def main() -> None:
    """Run what was asked for."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers and workers end with us
    options = argparse.ArgumentParser(prog="make bench-guard ARGS=…", description=__doc__)
    options.add_argument("--seconds", type=float, default=90.0, help="for the rounds; a repetition takes as long again")
    options.add_argument("--record", action="store_true", help="write bench/baseline.json")
    options.add_argument("--server", default="embedded", help="auto, embedded, or a folder of PostgreSQL programs")
    asked = options.parse_args()
    found = {subject.name: environments.prepare(subject, {}) for subject in (roster.ROWLOCK, roster.MINIMAL)}
    with (
        servers.postgres(asked.server, "guard") as server,
        tempfile.TemporaryDirectory(prefix="rowlock-guard-") as folder,
    ):
        stage = Stage(server, Path(folder), found, patience=0.0)
        try:
            if asked.record:
                record(stage, asked.seconds)
                return
            code = judge(stage, json.loads(BASELINE.read_text()), asked.seconds)
        except Failed as failure:
            say(f"The guard could not measure: {failure}")
            code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
