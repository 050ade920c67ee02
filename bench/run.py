"""One run: every scene, every subject in turn, round after round, so that a drifting machine drifts for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import environments, machine, scenes
from bench import server as servers
from bench.results import Reading, Results, say, tell
from bench.stage import Failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.environments import Environment
    from bench.roster import Subject
    from bench.scenes import Size
    from bench.stage import Stage


def prepared(subjects: Sequence[Subject], pythons: dict[str, str]) -> tuple[dict[str, Environment], Results]:
    """Environments by subject, and empty results that say who is missing and why."""
    found: dict[str, Environment] = {}
    results = Results(machine.describe(), {})
    for subject in subjects:
        about = {"store": subject.store, "settings": subject.settings, "lacks": subject.lacks}
        say(f"environment of {subject.name}")
        try:
            found[subject.name] = environments.prepare(subject, pythons)
            about["version"] = found[subject.name].version_of(subject)
            about["python"] = found[subject.name].versions["python"]
        except environments.CannotInstall as refusal:
            about["problem"] = str(refusal)
            say(f"  {refusal}")
        results.subjects[subject.name] = about
    return found, results


def without_redis(results: Results) -> None:
    """Say of every subject on Redis that there is none here."""
    for about in results.subjects.values():
        if about["store"] == "Redis":
            about.setdefault("problem", "redis-server is not installed")


def rounds(
    stage: Stage, results: Results, subjects: Sequence[Subject], names: Sequence[str], *, size: Size, repeat: int
) -> None:
    """Measure everything `repeat` times, long scenes once; each round begins with another subject."""
    present = [subject for subject in subjects if "problem" not in results.subjects[subject.name]]
    for number in range(repeat):
        turn = number % max(1, len(present))
        for name in names if number == 0 else [name for name in names if name not in scenes.ONCE]:
            for subject in [*present[turn:], *present[:turn]]:
                results.add(tell(_reading(stage, subject, name, size, number)))


def _reading(stage: Stage, subject: Subject, name: str, size: Size, number: int) -> Reading:
    try:
        values = scenes.SCENES[name](stage, subject, size)
    except Failed as failure:
        return Reading(subject.name, name, number, problem=str(failure))
    return Reading(subject.name, name, number, values, noise=values.pop("noise"))


def about_server(server: servers.Server, redis_port: int) -> dict[str, str]:
    """Lines for the report's description of the machine."""
    return {"server": servers.describe(server), "redis": "default persistence" if redis_port else "not installed"}
