"""One of several processes that all do the same at the same moment, a line of standard input at a time.

`run JOB` claims a job by its id and runs it; `recalculate ORGANISATION` starts a run unless one is current.
"""

from __future__ import annotations

import sys

from examples.emissions.tasks import Subject, current, tasks, without_file

from rowlock import WrongState


def run(job: str) -> str:
    try:
        return str(tasks.run_job_sync(job).state)
    except WrongState:
        return "taken"


def recalculate(organisation: str) -> str:
    options = without_file.options(unique_key=current(organisation), on_conflict="keep")
    started = options.enqueue_sync(Subject(organisation=organisation))
    return f"{started.what} {started.public_id}"


def main() -> None:
    doing = {"run": run, "recalculate": recalculate}
    tasks.sync.jobs.list(limit=1)  # connected before the race
    print("ready", flush=True)  # noqa: T201 - read by the test
    for line in sys.stdin:
        verb, _, about = line.strip().partition(" ")
        print(doing[verb](about), flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    main()
