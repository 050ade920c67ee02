"""The tables of a run as Markdown: medians with extremes, and Rowlock's ratio to each of the others."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from bench.targets import judged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.results import Results, Spread

NOTHING: Final = "–"
Row = list[str]


def number(value: float) -> str:
    """Three or so significant digits, thousands apart."""
    if value >= 100:  # noqa: PLR2004 - where decimals stop to matter
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}" if value >= 0.01 else f"{value:.2f}"  # noqa: PLR2004 - as above


def cell(spread: Spread | None, *, extremes: bool = True) -> str:
    """The median, and the extremes in brackets."""
    if spread is None:
        return NOTHING
    if spread.count == 1 or not extremes:
        return number(spread.median)
    return f"{number(spread.median)} [{number(spread.low)}–{number(spread.high)}]"


def table(head: Sequence[str], rows: Sequence[Row]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rates(results: Results) -> str:
    """Enqueue and drain rates, and how Rowlock compares."""
    head = ["", "store", "enqueue one by one", "bulk enqueue", "drain, 1 worker", "drain, 2 workers", "Rowlock drains"]

    def row(name: str) -> Row:
        parts = [cell(results.spread(scene, name, "rate")) for scene in ("enqueue", "bulk", "drain", "drain2")]
        ratio = results.ratio("drain", "rowlock", name)
        times = NOTHING if ratio is None or name == "rowlock" else f"{cell(ratio)}×"
        return [name, results.subjects[name]["store"], *parts, times]

    return table(head, [row(name) for name in _present(results)]) + "\n\nJobs per second: median [lowest–highest]."


def latency(results: Results) -> str:
    """Pick-up on an idle queue, and at a steady rate."""
    head = ["", "from commit p50 / p95 / p99", "from call p50 / p95 / p99", "at 500 jobs/s p50 / p95 / p99"]

    def row(name: str) -> Row:
        columns = [("pickup", "commit"), ("pickup", "call"), ("steady", "call")]
        return [name, *(_percentiles(results, name, scene, since) for scene, since in columns)]

    rows = [row(name) for name in _present(results)]
    said = "Milliseconds. At 500 jobs/s counted from when a job was due: a producer that falls behind shows."
    return table(head, [row for row in rows if set(row[1:]) != {NOTHING}]) + f"\n\n{said}"


def _percentiles(results: Results, name: str, scene: str, since: str) -> str:
    found = [results.spread(scene, name, f"{since}_p{share}") for share in (50, 95, 99)]
    if any(spread is None for spread in found):
        return NOTHING
    return " / ".join(cell(spread, extremes=False) for spread in found)


def cost(results: Results) -> str:
    """What a job costs, and what a worker costs that has none."""
    head = ["", "client µs", "server µs", "WAL bytes", "dead tuples", "statements", "enqueue WAL bytes"]
    head += ["idle statements/s", "idle RSS MB", "connections"]
    columns = [("drain", key) for key in ("client_us", "server_us", "wal", "dead", "statements")]
    columns += [("enqueue", "wal"), ("idle", "statements"), ("idle", "rss_mb"), ("idle", "connections")]

    def row(name: str) -> Row:
        return [name, *(cell(results.spread(*_at(column, name)), extremes=False) for column in columns)]

    return (
        table(head, [row(name) for name in _present(results)])
        + "\n\nPer drained job, unless the column says otherwise."
    )


def _at(column: tuple[str, str], name: str) -> tuple[str, str, str]:
    return column[0], name, column[1]


def adversity(results: Results) -> str:
    """Rowlock against its own plain rate."""
    plain = "adversity: plain"
    rows = []
    for scene in _scenes(results, "adversity: "):
        rate = results.spread(scene, "rowlock", "rate")
        share = _share(results, scene, plain, "rate")
        blocks = results.spread(scene, "rowlock", "claim_blocks")
        more = _share(results, scene, plain, "claim_blocks")
        problem = results.problem(scene, "rowlock") if rate is None else None
        row = [cell(rate), share, cell(blocks, extremes=False), more, _cost(results, scene)]
        rows.append([scene.partition(": ")[2], *([problem, *[NOTHING] * 4] if problem else row)])
    return table(["", "jobs/s", "of plain", "claim buffers per job", "of plain", "WAL bytes per job"], rows)


def _share(results: Results, scene: str, plain: str, value: str) -> str:
    here = {r.round: r.values[value] for r in results.of(scene, "rowlock") if value in r.values}
    there = {r.round: r.values[value] for r in results.of(plain, "rowlock") if value in r.values}
    both = [here[n] / there[n] for n in here.keys() & there.keys() if there[n]]
    return f"{statistics.median(both):.0%}" if both else NOTHING


def _cost(results: Results, scene: str) -> str:
    return cell(results.spread(scene, "rowlock", "wal"), extremes=False)


def felt(results: Results) -> str:
    """Latency as users feel it."""
    rows = []
    for scene in _scenes(results, "felt: "):
        found = _percentiles(results, "rowlock", scene, "commit")
        rows.append([scene.partition(": ")[2], found if found != NOTHING else str(results.problem(scene, "rowlock"))])
    return table(["", "from commit p50 / p95 / p99, ms"], rows)


def subjects(results: Results) -> str:
    """Settings, what is left out, and who is missing and why."""
    rows = []
    for name, about in results.subjects.items():
        state = f"**not measured: {about['problem']}**" if "problem" in about else about.get("version") or "own code"
        rows.append([name, state.replace("|", "\\|"), about["settings"], about["lacks"] or NOTHING])
    return table(["", "version", "settings", "does less per job"], rows)


def failures(results: Results) -> str:
    """What was not measured of a subject that is present, each reason once."""
    seen = {(r.scene, r.subject, r.problem): None for r in results.readings if r.problem}
    rows = [[scene, subject, str(problem).replace("|", "\\|")] for scene, subject, problem in seen]
    return table(["scene", "subject", "why not"], rows) if rows else "Everything was measured."


def targets(results: Results) -> str:
    """What was promised, and what came."""
    rows = [
        [t.what, t.wanted, t.found, {True: "met", False: "**missed**", None: NOTHING}[t.met]] for t in judged(results)
    ]
    return table(["target", "wanted", "measured", ""], rows)


def conditions(results: Results) -> str:
    """The machine, and how noisy it was."""
    noises = sorted(reading.noise for reading in results.readings if reading.problem is None)
    middle = (
        f"{noises[len(noises) // 2]:.2f} cores in the median reading, {noises[-1]:.2f} at worst" if noises else NOTHING
    )
    rows = [[key, value] for key, value in {**results.machine, "noise": f"others used {middle}"}.items()]
    return table(["", ""], rows)


PARTS: Final[dict[str, Callable[[Results], str]]] = {
    "conditions": conditions,
    "targets": targets,
    "rates": rates,
    "latency": latency,
    "cost": cost,
    "adversity": adversity,
    "felt": felt,
    "subjects": subjects,
    "failures": failures,
}


def markdown(results: Results) -> str:
    """The whole report."""
    return "\n\n".join(f"## {name.capitalize()}\n\n{part(results)}" for name, part in PARTS.items()) + "\n"


def _present(results: Results) -> list[str]:
    return [name for name, about in results.subjects.items() if "problem" not in about]


def _scenes(results: Results, prefix: str) -> list[str]:
    return list(dict.fromkeys(reading.scene for reading in results.readings if reading.scene.startswith(prefix)))
