"""rowlock: the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """The console script, and python -m rowlock."""
    try:
        from rowlock.cli.root import build

        # One name, however it was started: in usage lines, and for the shell's completion.
        build()(prog_name="rowlock")
    except KeyboardInterrupt:
        # Before or after a command runs; inside, the command itself ends this way.
        sys.exit(130)
