"""DBTaskResult: Rowlock's jobs, by the states of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from rowlock.contrib.django.models import Job

if TYPE_CHECKING:
    from django.db.models import QuerySet


class TaskResults:
    """What the tests ask of DBTaskResult.objects."""

    def all(self) -> QuerySet:
        return Job.objects.all()

    def count(self) -> int:
        return int(Job.objects.count())

    def values(self, _name: str) -> QuerySet:
        return Job.objects.values("pk")

    def ready(self) -> QuerySet:
        return Job.objects.filter(state="queued", run_after__lte=timezone.now())

    def running(self) -> QuerySet:
        return Job.objects.filter(state="running")

    def successful(self) -> QuerySet:
        return Job.objects.filter(state="completed")

    def failed(self) -> QuerySet:
        return Job.objects.filter(state="failed")


class DBTaskResult:
    """Rowlock's table in the place of the package's."""

    objects = TaskResults()


def get_date_max() -> None:
    """Of the package's table alone."""
