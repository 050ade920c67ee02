"""python -m bench: set up, measure, report. `make bench ARGS=…` calls it."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import adversity, chart, felt, publish, report, roster, run, scenes
from bench import server as servers
from bench.results import Results
from bench.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS: Final = Path(__file__).parent / "results"
EXTRA: Final = ("adversity", "felt")
"""Scenes of Rowlock alone."""
_TINY: Final = 0.002
"""Share of the real row counts in a quick run."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    known = [*scenes.SCENES, *EXTRA]
    options = argparse.ArgumentParser(prog="make bench ARGS=…", description="Measure Rowlock beside its peers.")
    options.add_argument("--peers", default="all", help="names with commas; all, own (Rowlock and the loops), peers")
    options.add_argument("--scenarios", default=",".join(known), help=f"with commas, of: {', '.join(known)}")
    options.add_argument("--repeat", type=int, default=3, help="rounds; subjects take turns in each")
    options.add_argument("--quick", action="store_true", help="tiny sizes, to see that everything works")
    options.add_argument("--scale", type=float, help="share of the row counts of adversity; 1 unless --quick")
    options.add_argument("--conditions", help="of adversity, with semicolons; default: all")
    options.add_argument("--quiet-hour", action="store_true", help="an hour without a job before the job after it")
    options.add_argument("--server", default="auto", help="auto, embedded, or a folder of PostgreSQL programs")
    options.add_argument("--python3.12", dest="python312", metavar="PATH", help="for peers that need it")
    options.add_argument("--patience", type=float, default=10.0, help="seconds to wait for a quiet machine each time")
    options.add_argument("--publish", action="store_true", help="write the figures into docs/operate/performance.md")
    options.add_argument("--after", type=Path, metavar="JSON", help="an earlier run to go on from")
    options.add_argument("--out", type=Path, default=RESULTS, help="folder of latest.json, latest.md and latest.svg")
    return options


def _said(arguments: Sequence[str]) -> str:
    """The options of this run, for the page: without those that name folders of this machine."""
    return re.sub(r" ?--(?:out|after|server|python3\.12)[ =]\S+", "", " ".join(arguments)).strip()


def main() -> None:
    """Run what was asked for."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers and workers end with us
    asked = parser().parse_args()
    names = [name.strip() for name in asked.scenarios.split(",") if name.strip()]
    if unknown := set(names) - {*scenes.SCENES, *EXTRA}:
        raise SystemExit(f"No scenario is called {', '.join(sorted(unknown))}; see --help.")
    subjects = roster.chosen(f"{asked.peers},rowlock")
    found, results = run.prepared(subjects, {"3.12": asked.python312} if asked.python312 else {})
    if asked.after is not None:
        results.go_on_from(Results.load(asked.after))
    asked.out.mkdir(parents=True, exist_ok=True)
    results.kept_in = asked.out / "latest.json"
    with (
        servers.postgres(asked.server) as server,
        servers.redis() as redis,
        tempfile.TemporaryDirectory(prefix="rowlock-bench-") as folder,
    ):
        if not redis[0]:
            run.without_redis(results)
        if asked.quick:
            results.machine["sizes"] = "quick: they show that it works, not how fast it is"
        results.machine |= run.about_server(server, redis[0]) | {"command": f"make bench ARGS={_said(sys.argv[1:])!r}"}
        stage = Stage(server, Path(folder), found, redis, 0.0 if asked.quick else asked.patience)
        size = scenes.QUICK if asked.quick else scenes.FULL
        run.rounds(stage, results, subjects, [n for n in names if n in scenes.SCENES], size=size, repeat=asked.repeat)
        if "adversity" in names:
            conditions = [c.strip() for c in asked.conditions.split(";")] if asked.conditions else None
            scale = asked.scale or (_TINY if asked.quick else 1.0)
            adversity.run(stage, results, asked.repeat, scale=scale, names=conditions)
        if "felt" in names:
            how = felt.QUICK if asked.quick else felt.FULL
            felt.run(stage, results, asked.repeat, replace(how, quiet=3600.0) if asked.quiet_hour else how)
    results.save(asked.out / "latest.json")
    (asked.out / "latest.md").write_text(report.markdown(results))
    (asked.out / "latest.svg").write_text(chart.drawn(results))
    if asked.publish:
        publish.publish(results)
    sys.stdout.write(report.markdown(results))


if __name__ == "__main__":
    main()
