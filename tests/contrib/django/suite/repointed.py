"""Backends that Django's own tests are pointed at, in place of its dummy and its immediate backend."""

from __future__ import annotations

import asyncio
from typing import Any

from django.db import connection
from typing_extensions import override

from rowlock.contrib.django import app
from rowlock.contrib.django.models import Job
from rowlock.contrib.django.tasks import RowlockBackend


class QueuedBackend(RowlockBackend):
    """Instead of the dummy: jobs wait in the table, as no worker runs."""

    @property
    def results(self) -> list[Any]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # blocking code, which may be in a transaction
            return [self.get_result(pk) for pk in Job.objects.order_by("id").values_list("pk", flat=True)]
        return [self.get_result(job.public_id) for job in reversed(app.sync.jobs.list(limit=100))]

    def clear(self) -> None:
        with connection.cursor() as cursor:  # setUp() of async tests blocks, too
            cursor.execute("TRUNCATE rowlock.jobs CASCADE")


class RunAtOnceBackend(RowlockBackend):
    """Instead of the immediate one: the job is claimed and run by a worker of this process before enqueue() returns."""

    @override
    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        queued = super().enqueue(task, args, kwargs)
        app.wait_for(app.run_job(queued.id))
        return self.get_result(queued.id)
