"""What Rowlock promises of its speed, and whether a run shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.results import Results


@dataclass(frozen=True, slots=True)
class Target:
    """One promise. met: None when the run did not measure it."""

    what: str
    wanted: str
    found: str
    met: bool | None


_DRAINS: Final = {"pgqueuer": 1.5, "chancy": 5.0, "oban": 8.0, "procrastinate": 30.0, "minimal": 0.5}
_FLAT: Final = 0.9
_BUFFERS: Final = 1.5
_EXEMPT: Final = ("20 kB arguments",)
"""Conditions that change the job itself."""


def judged(results: Results) -> list[Target]:
    """Every target."""
    found = [_ratio(results, "drain", peer, f"no-op drain against {peer}", least) for peer, least in _DRAINS.items()]
    found += [_fastest(results, "enqueue", "enqueue one by one"), _fastest(results, "bulk", "bulk enqueue")]
    found += [
        _at_most(results, "pickup", "commit_p50", "idle pick-up from commit, p50 ms", 1.5),
        _at_most(results, "pickup", "commit_p99", "idle pick-up from commit, p99 ms", 4.0),
        _at_most(results, "felt: request of 100 ms", "commit_p50", "after a request of 100 ms, p50 ms", 1.5),
        _at_most(results, "felt: request of 100 ms", "commit_p99", "after a request of 100 ms, p99 ms", 4.0),
        _at_most(results, "idle", "statements", "idle worker, statements/s", 1.0),
        _at_most(results, "idle", "rss_mb", "idle worker, RSS MB", 45.0),
        _at_most(results, "drain", "wal", "drain, WAL bytes per job", 1000.0),
        _at_most(results, "drain", "client_us", "drain, client µs per job", 30.0),
    ]
    return found + _flat(results)


def _ratio(results: Results, scene: str, other: str, what: str, least: float) -> Target:
    ratio = results.ratio(scene, "rowlock", other)
    if ratio is None:
        return Target(what, f"≥ {least:g}×", "not measured", None)
    return Target(
        what, f"≥ {least:g}×", f"{ratio.median:.2f}× [{ratio.low:.2f}–{ratio.high:.2f}]", ratio.median >= least
    )


def _fastest(results: Results, scene: str, what: str) -> Target:
    """Against the fastest peer on PostgreSQL."""
    loops = {"rowlock", "minimal", "limit"}
    peers = [name for name, about in results.subjects.items() if about["store"] == "PostgreSQL" and name not in loops]
    known = {name: spread.median for name in peers if (spread := results.spread(scene, name, "rate")) is not None}
    if not known:
        return Target(f"{what} against the fastest peer on PostgreSQL", "≥ 2×", "not measured", None)
    best = max(known, key=lambda name: known[name])
    return _ratio(results, scene, best, f"{what} against the fastest peer on PostgreSQL ({best})", 2.0)


def _at_most(results: Results, scene: str, value: str, what: str, most: float) -> Target:
    found = results.spread(scene, "rowlock", value)
    if found is None:
        return Target(what, f"≤ {most:g}", "not measured", None)
    return Target(what, f"≤ {most:g}", f"{found.median:.3g} [{found.low:.3g}–{found.high:.3g}]", found.median <= most)


def _flat(results: Results) -> list[Target]:
    plain = results.spread("adversity: plain", "rowlock", "rate")
    scenes = dict.fromkeys(r.scene for r in results.readings if r.scene.startswith("adversity: "))
    found = []
    for scene in scenes:
        name = scene.partition(": ")[2]
        if name in {"plain", *_EXEMPT} or plain is None:
            continue
        here = results.spread(scene, "rowlock", "rate")
        share = None if here is None else here.median / plain.median
        said = "not measured" if share is None else f"{share:.0%}"
        found.append(
            Target(f"{name}, of the plain rate", f"≥ {_FLAT:.0%}", said, None if share is None else share >= _FLAT)
        )
    before = results.spread("adversity: plain", "rowlock", "claim_blocks")
    worst = results.spread("adversity: 10 M finished, 1 M backlog, xmin pinned", "rowlock", "claim_blocks")
    more = worst.median / before.median if before and worst else None
    said = "not measured" if more is None else f"{more:.2f}×"
    met = None if more is None else more <= _BUFFERS
    found.append(Target("claim buffers, 10 M + 1 M + pinned, of the empty table's", f"≤ {_BUFFERS:g}×", said, met))
    return found
