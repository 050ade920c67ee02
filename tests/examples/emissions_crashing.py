"""A pod of examples/emissions that is killed at the commit of one step, before it can start the next.

CRASH_AFTER names the kind. The kill is kill -9 of the whole process, sent when the database has acknowledged the step.
"""

from __future__ import annotations

import os
import signal

from examples.emissions.tasks import tasks
from examples.emissions.web import create_app

from rowlock.telemetry import BatchFlushed

__all__ = ["create_app"]


@tasks.listen(BatchFlushed)
def crash(event: BatchFlushed) -> None:
    if any(job.kind == os.environ["CRASH_AFTER"] for job in event.jobs):
        os.kill(os.getpid(), signal.SIGKILL)
