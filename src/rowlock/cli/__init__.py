"""rowlock: the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """The console script, and python -m rowlock."""
    try:
        words = sys.argv[1:]
        if words[:1] == ["worker"]:
            from rowlock.cli.process import plain_options

            if plain_options.worker(words[1:]):
                return
        from rowlock.cli.root import build

        # One name, however it was started: in usage lines, and for the shell's completion.
        build(words[0] if words else "")(prog_name="rowlock")
    except KeyboardInterrupt:
        # Before or after a command runs; inside, the command itself ends this way.
        sys.exit(130)
