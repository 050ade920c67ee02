"""rowlock demo --linger: the demo in a process of its own, which goes on serving after this one has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

HANDOVER: Final = "ROWLOCK_DEMO_HANDOVER"
"""Names the pipe through which the process that stays says that it serves."""


def run_and_leave() -> int:
    """Run the same command in a session of its own; returns its exit code, or 0 as soon as it serves."""
    reading, writing = os.pipe()
    process = subprocess.Popen(  # noqa: S603 - this very command
        [sys.executable, "-m", "rowlock", *sys.argv[1:]],
        env={**os.environ, HANDOVER: str(writing)},
        pass_fds=[writing],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            serves = bool(pipe.read(1))
        return 0 if serves else process.wait()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise


def must_stay() -> bool:
    """Whether this is the process that stays."""
    return HANDOVER in os.environ


def hand_over() -> None:
    """Say that the dashboard is there, and let go of the terminal or pipe of the process that ends now."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)
    pipe = int(os.environ[HANDOVER])
    os.write(pipe, b"+")
    os.close(pipe)
