"""Break the engine on purpose and see the tests turn red: a mutation that survives is a rule nobody guards.

    python tools/mutations.py [WORD …]     only mutations whose name contains one of the words
    python tools/mutations.py --list       their names and where they are noticed, without running anything
    python tools/mutations.py --at-once 2 --log FILE
                                           two at a time; stopped and started again, it goes on where FILE ends

What is broken stands in tools/mutations/, a file per room. Each mutation is applied to a scratch copy of src, which the
named tests import instead of the real one. Exit code 1: a mutation survived, did not apply, its pytest broke off, or
the tests were red before anything was broken. 130: Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from mutations import MUTATIONS
from mutations.trial import try_all

ROOT: Final = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    """Try the mutations; 0: each was noticed."""
    parser = argparse.ArgumentParser(
        "mutations.py", description="Break the engine on purpose; each break must be noticed."
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="only mutations whose name contains one of these")
    parser.add_argument("--list", action="store_true", help="name them and where they are noticed, and run nothing")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="try so many at a time (1)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="leave out what FILE calls noticed; add each verdict")
    asked = parser.parse_args(arguments)
    if asked.at_once < 1:
        parser.error(f"--at-once is 1 or more, not {asked.at_once}")
    chosen = [m for m in MUTATIONS if not asked.words or any(word in m.name for word in asked.words)]
    if not chosen:
        parser.error(f"no mutation is called like {' or '.join(asked.words)}; --list names them")
    if asked.list:
        sys.stdout.writelines(f"{m.name:<65} {m.file}\n" for m in chosen)
        return 0
    try:
        return try_all(ROOT, chosen, say, at_once=asked.at_once, log=asked.log)
    except KeyboardInterrupt:
        say(f"stopped; --log {asked.log} goes on from here\n" if asked.log else "stopped\n")
        return 130


def say(text: str) -> None:
    """Print at once: a run takes long, and its output is read meanwhile."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
