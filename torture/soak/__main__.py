"""python -m torture.soak: let it run, and see what grows. `make soak MINUTES=10` calls it."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Final

from torture import server as servers
from torture.soak import report
from torture.soak.run import RATE, Plan, soak
from torture.stage import Failed

OUT: Final = Path(__file__).parents[1] / "out"
_LEAST: Final = 0.3


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog="make soak ARGS=…", description="Run Rowlock for a while and see what grows."
    )
    options.add_argument("--minutes", type=float, default=10.0, help="of load; the first third or so is not judged")
    options.add_argument("--rate", type=float, default=RATE, help="calls a second of the producer")
    options.add_argument("--supervised", action="store_true", help="a supervisor with two processes, not two workers")
    options.add_argument("--server", default="auto", help="auto, embedded, or a folder of PostgreSQL programs")
    options.add_argument("--publish", action="store_true", help="write the section of the docs")
    options.add_argument("--out", type=Path, default=OUT, help="folder of soak.json, soak.svg, and of what went wrong")
    return options


def main() -> None:
    """Run it; exit code 1: something grows, or a promise was not kept."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server and the workers end with us
    asked = parser().parse_args()
    if asked.minutes < _LEAST or asked.rate <= 0:
        raise SystemExit(
            f"Expected at least {_LEAST} minutes and a rate above 0, got {asked.minutes} and {asked.rate}."
        )
    plan = Plan(60 * asked.minutes, asked.rate, asked.supervised)
    asked.out.mkdir(parents=True, exist_ok=True)
    try:
        with servers.postgres(asked.server, "soak", **plan.settings) as server:
            result = asyncio.run(soak(server, plan, keep=asked.out))
            about = asyncio.run(servers.version(server))
    except Failed as failure:
        raise SystemExit(f"The soak could not be run: {failure}") from failure
    (asked.out / "soak.json").write_text(json.dumps({"postgresql": about, **result.plain()}, indent=1) + "\n")
    (asked.out / "soak.svg").write_text(report.chart(result))
    sys.stdout.write(f"{report.summary(result)}\n\n{report.table(result)}{report.problems(result)}")
    if asked.publish:
        report.publish(result, about)
    sys.exit(0 if result.ok else 1)


if __name__ == "__main__":
    main()
