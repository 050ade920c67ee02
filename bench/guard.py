"""A short check that speed was not spent unseen: Rowlock against the minimal loop, in turn, in the same minute.

    python -m bench.guard             compare with bench/baseline.json; exit code 1 when a ratio dropped by a quarter
    python -m bench.guard --record    write the baseline instead

Only ratios are compared, since a slow machine slows both: of the rates, and of the processor time per job. Neighbours
on the machine spoil rates far more than processor time. So rates are judged by quiet rounds alone, and not at all when
there are too few of them; processor time is judged by the median of all rounds. Nothing fails before it was measured
twice.
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

from bench import environments, machine, roster, scenes
from bench import server as servers
from bench.results import QUIET_ENOUGH, say
from bench.stage import Failed, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.roster import Subject

BASELINE: Final = Path(__file__).with_name("baseline.json")
DROP: Final = 0.75
"""A quarter less fails."""
LEAST: Final = 3
"""Rounds, whatever the time; quiet ones, to judge a rate."""
_MOST: Final = 9
_SIZE: Final = replace(scenes.QUICK, backlog=0.4, longest=20.0, gauged=False)
_SINGLES: Final = 1000
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Round:
    """Both systems once: jobs per second and processor microseconds per job, Rowlock's first. noise: foreign cores."""

    scene: str
    rates: tuple[float, float]
    costs: tuple[float, float]
    noise: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """Rowlock over the minimal loop; 0.5 is half as fast, or twice the processor time. None: too noisy to say."""

    name: str
    value: float | None

    def dropped(self, baseline: Mapping[str, float]) -> bool:
        """Whether a quarter is gone."""
        return self.value is not None and self.value < baseline[self.name] * DROP


def drains(stage: Stage, number: int) -> Round:
    """A drain each, one after the other; who comes first changes from round to round."""
    order = [roster.ROWLOCK, roster.MINIMAL][:: 1 if number % 2 else -1]
    found = {subject.name: _weighed(stage, subject) for subject in order}
    ours, theirs = found["rowlock"], found["minimal"]
    costs = [values["client_us"] + values["server_us"] for values in (ours, theirs)]
    return Round("drain", (ours["rate"], theirs["rate"]), (costs[0], costs[1]), max(ours["noise"], theirs["noise"]))


def _weighed(stage: Stage, subject: Subject) -> dict[str, float]:
    """A drain whose processor time is known: when we get no processor ourselves, it may be over before we look."""
    for _ in range(_TRIES):
        values = scenes.drain_one(stage, subject, _SIZE)
        if "client_us" in values:
            return values
    raise Failed(f"{subject.name} was done before it could be watched, {_TRIES} times")


def enqueues(stage: Stage, _number: int) -> Round:
    """Block by block in one process, so the processor time is the client's alone."""
    with stage.play(roster.MINIMAL) as other:
        extra = {"other": stage.server.at(other.tag)}
        with stage.play(roster.ROWLOCK, extra=extra) as play:
            noise = machine.Noise(stage.own_time)
            found = play.call("alternate", "--jobs", str(_SINGLES), module="bench.asking")
            rates = found["rowlock"], found["minimal"]
            return Round("enqueue", rates, (found["rowlock_us"], found["minimal_us"]), noise.read())


SCENES: Final[tuple[Callable[[Stage, int], Round], ...]] = (drains, enqueues)


def measure(stage: Stage, seconds: float) -> list[Round]:
    """As many rounds as fit into the time."""
    found: list[Round] = []
    deadline, longest = time.monotonic() + seconds, 0.0
    for number in range(_MOST):
        began = time.monotonic()
        if number >= LEAST and began + longest > deadline:
            break
        for scene in SCENES:
            one = scene(stage, number)
            say(
                f"round {number + 1}, {one.scene}: {one.rates[0]:,.0f} against {one.rates[1]:,.0f} jobs/s, "
                f"{one.costs[0]:.0f} against {one.costs[1]:.0f} µs per job, {one.noise:.1f} foreign cores"
            )
            found.append(one)
        longest = max(longest, time.monotonic() - began)
    return found


def ratios(rounds: Sequence[Round]) -> list[Ratio]:
    """Rate and processor time of every scene."""
    found = []
    for scene in dict.fromkeys(one.scene for one in rounds):
        mine = [one for one in rounds if one.scene == scene]
        quiet = [one for one in mine if one.noise <= QUIET_ENOUGH]
        rate = statistics.median(one.rates[0] / one.rates[1] for one in quiet) if len(quiet) >= LEAST else None
        cost = statistics.median(one.costs[1] / one.costs[0] for one in mine)
        found += [Ratio(f"{scene} rate", rate), Ratio(f"{scene} processor time", cost)]
    return found


def judge(measured: Callable[[], Sequence[Round]], baseline: Mapping[str, float]) -> int:
    """The exit code; measures a second time before it says that something became slow."""
    found = ratios(measured())
    suspects = {ratio.name for ratio in found if ratio.dropped(baseline)}
    if suspects:
        say(f"Too slow at first: {', '.join(sorted(suspects))}. Measured once more, since a busy machine can do this.")
        found = ratios(measured())
    slow = [ratio for ratio in found if ratio.dropped(baseline) and ratio.name in suspects]
    for ratio in found:
        value = "too noisy to judge" if ratio.value is None else f"{ratio.value:.2f} of the minimal loop"
        limit = f"baseline {baseline[ratio.name]:.2f}, fails below {baseline[ratio.name] * DROP:.2f}"
        say(f"{'SLOW' if ratio in slow else 'ok':<5}{ratio.name}: {value} ({limit})")
    if slow:
        say(
            "A quarter slower, twice in a row. Find the cause with `make bench ARGS='--peers own'`. If the price is "
            "wanted, record a new baseline on a quiet machine (`make bench-guard ARGS=--record`) and say why in the "
            "commit."
        )
    return 1 if slow else 0


def record(rounds: Sequence[Round]) -> None:
    """Write the ratios as the new baseline; what was too noisy to judge keeps its old one."""
    before: dict[str, float] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    after = dict(before)
    for ratio in ratios(rounds):
        if ratio.value is not None:
            after[ratio.name] = round(ratio.value, 3)
        elif ratio.name not in before:
            raise Failed(
                f"the machine is too busy for a first baseline of the {ratio.name}; try again when it is quiet"
            )
        else:
            say(f"kept: {ratio.name} {before[ratio.name]:.2f}, since the machine is too busy to measure it")
    BASELINE.write_text(json.dumps(after, indent=2) + "\n")
    say(f"recorded: {after}")


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
        stage = Stage(server, Path(folder), found, patience=0.0, keeps=True)
        try:
            if asked.record:
                record(measure(stage, asked.seconds))
                code = 0
            else:
                code = judge(lambda: measure(stage, asked.seconds), json.loads(BASELINE.read_text()))
        except Failed as failure:
            say(f"The guard could not measure: {failure}")
            code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
