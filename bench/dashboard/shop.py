"""The demo's jobs as an application that other processes can load: `rowlock serve --app bench.dashboard.shop:app`."""

from __future__ import annotations

import random
from typing import Final

from rowlock import Rowlock
from rowlock.cli.process.demo import sample_jobs
from rowlock.cli.process.demo.traffic import DemoTraffic

app: Final = Rowlock()
sample_jobs.samples(app)
DemoTraffic.declare(app, random.Random(17))  # noqa: S311 - which sample comes next
