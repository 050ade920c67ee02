"""Break the engine on purpose and see the tests turn red: a mutation that survives is a rule nobody guards.

    python tools/mutations.py [WORD …]     only mutations whose name contains one of the words
    python tools/mutations.py --list       their names and where they are noticed, without running anything

What is broken stands in tools/mutations/, a file per room. Each mutation is applied to a scratch copy of src, which the
named tests import instead of the real one. Exit code 1: a mutation survived, did not apply, or the tests were red
before anything was broken.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from mutations import MUTATIONS, Mutation

ROOT: Final = Path(__file__).resolve().parent.parent
RED: Final = 1
"""pytest's exit code for tests that ran and failed; anything else is a mistake of ours."""


def run(tests: tuple[str, ...], source: Path | None, *options: str) -> tuple[int, str]:
    """Run tests against a copy of src (None: the real one); returns pytest's exit code and what it said."""
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--timeout=120", *options, *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own tests
    return done.returncode, done.stdout


def attempt(mutation: Mutation) -> str:
    """Say which test noticed the mutation; empty: none did."""
    with tempfile.TemporaryDirectory(prefix="rowlock-mutation-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        mutation.apply(source / "rowlock")
        code, said = run(mutation.tests, source, "-x")
    failed = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR tests"))]
    if code == RED and failed:
        return failed[0].partition(" ")[2].partition(" - ")[0].rpartition("::")[2]
    if code == 0:
        return ""
    message = f"{mutation.name}: pytest ended with {code}\n{said[-3000:]}"
    raise SystemExit(message)


def main(arguments: list[str]) -> int:
    """Try the mutations; 0: each was noticed."""
    parser = argparse.ArgumentParser(
        "mutations.py", description="Break the engine on purpose; each break must be noticed."
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="only mutations whose name contains one of these")
    parser.add_argument("--list", action="store_true", help="name them and where they are noticed, and run nothing")
    asked = parser.parse_args(arguments)
    chosen = [m for m in MUTATIONS if not asked.words or any(word in m.name for word in asked.words)]
    if not chosen:
        parser.error(f"no mutation is called like {' or '.join(asked.words)}; --list names them")
    if asked.list:
        sys.stdout.writelines(f"{m.name:<65} {m.file}\n" for m in chosen)
        return 0
    return tried(chosen)


def tried(chosen: list[Mutation]) -> int:
    """Run the tests as they are, then once for each thing that is broken."""
    code, said = run(tuple(dict.fromkeys(test for mutation in chosen for test in mutation.tests)), None, "-n", "2")
    if code != 0:
        sys.stdout.write(f"red before anything was broken:\n{said[-3000:]}\n")
        return 1
    survivors = 0
    for mutation in chosen:
        began = time.monotonic()
        by = attempt(mutation)
        survivors += not by
        verdict = f"noticed by {by}" if by else "SURVIVED"
        sys.stdout.write(f"{mutation.name:<55} {time.monotonic() - began:5.1f} s  {verdict}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - survivors} of {len(chosen)} mutations were noticed\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
