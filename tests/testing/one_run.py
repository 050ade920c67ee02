"""A process of a test run: lends a database, says its name, and waits to be killed or told to go."""

from __future__ import annotations

import sys

from rowlock.testing import Databases

with Databases(sys.argv[1], run=sys.argv[2]) as databases:
    lent = databases.lend()
    print(lent.name, flush=True)  # noqa: T201 - read by the test
    sys.stdin.readline()
