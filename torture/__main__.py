"""python -m torture: do harm, look whether every promise was kept, report. `make torture` calls it."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import signal
import sys
from pathlib import Path
from typing import Final

from torture import report
from torture import server as servers
from torture.roster import SCENARIOS
from torture.run import Result, run
from torture.stage import Failed

OUT: Final = Path(__file__).parent / "out"


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="make torture ARGS=…", description="Do harm to Rowlock under load.")
    options.add_argument("--scenario", default="all", help=f"with commas, of: {', '.join(SCENARIOS)}")
    options.add_argument("--long", action="store_true", help="a minute of each fault instead of some seconds")
    options.add_argument("--seconds", type=float, help="of each fault, instead of the scenario's own")
    options.add_argument("--seed", type=int, help="of the harm done and of the jobs asked for; a run prints its own")
    options.add_argument("--list", action="store_true", help="name the scenarios, and run nothing")
    options.add_argument("--server", default="auto", help="auto, embedded, or a folder of PostgreSQL programs")
    options.add_argument(
        "--publish", action="store_true", help="write the table into the docs, with what was measured before"
    )
    options.add_argument("--out", type=Path, default=OUT, help="folder of latest.json, and of what went wrong")
    return options


def main() -> None:
    """Run what was asked for; exit code 1: a promise was not kept."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server and the workers end with us
    asked = parser().parse_args()
    if asked.list:
        sys.stdout.writelines(f"{name:<14} {scenario.does}\n" for name, scenario in SCENARIOS.items())
        return
    names = list(SCENARIOS) if asked.scenario in {"all", ""} else asked.scenario.split(",")
    if unknown := set(names) - SCENARIOS.keys():
        raise SystemExit(f"No scenario is called {', '.join(sorted(unknown))}; see --list.")
    asked.out.mkdir(parents=True, exist_ok=True)
    asked.seed = secrets.randbelow(1_000_000) if asked.seed is None else asked.seed
    sys.stderr.write(f"seed {asked.seed}: the same choices again with --seed {asked.seed}\n")
    with servers.postgres(asked.server) as server:
        results = asyncio.run(_all(names, server, asked))
        about = asyncio.run(servers.version(server))
    latest = asked.out / "latest.json"
    known = {result.scenario: result for result in [*_earlier(latest), *results]}
    latest.write_text(
        json.dumps({"postgresql": about, "results": [result.plain() for result in known.values()]}, indent=2) + "\n"
    )
    sys.stdout.write(report.table(results) + report.problems(results))
    if asked.publish:
        report.publish([known[name] for name in SCENARIOS if name in known], about)
    sys.exit(0 if all(result.ok for result in results) and len(results) == len(names) else 1)


def _earlier(latest: Path) -> list[Result]:
    """What was measured before and is not measured now stays."""
    return [Result.read(plain) for plain in json.loads(latest.read_text())["results"]] if latest.exists() else []


async def _all(names: list[str], server: servers.Server, asked: argparse.Namespace) -> list[Result]:
    results: list[Result] = []
    for name in names:
        scenario = SCENARIOS[name]()
        if why := scenario.lacks():
            sys.stderr.write(f"{name}: not run: {why}\n")
            continue
        try:
            seconds = asked.seconds or scenario.seconds[asked.long]
            result = await run(scenario, server, seconds, keep=asked.out, seed=asked.seed)
        except Failed as failure:
            sys.stderr.write(f"{failure}\n")
            continue
        sys.stderr.write(report.line(result) + "\n")
        results.append(result)
    return results


if __name__ == "__main__":
    main()
