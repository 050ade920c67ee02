"""The command line `rowlock`.

root.py builds the typer application; commands/ has one module per command or group, process/ what long-running commands
do (worker, supervisor, hot reload), screen/ what they print. context.py holds the options that every command takes.
The command line uses the application and its desk like any other program; nothing imports it but `manage.py rowlock`.
Start with root.py, then commands/lanes.py.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the console script, also as python -m rowlock."""
    try:
        words = sys.argv[1:]
        if words[:1] == ["worker"]:
            # Plain calls are read without typer, whose memory a worker would keep.
            from rowlock.cli.process import plain_options

            if plain_options.worker(words[1:]):
                return
        from rowlock.cli.root import run

        run(words)
    except KeyboardInterrupt:
        # Before or after a command runs; inside, the command itself ends this way.
        sys.exit(130)
