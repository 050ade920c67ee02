"""Read-only models over Rowlock's tables, for queries and the admin. Jobs are changed by orders, never by save()."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models
from typing_extensions import override

from rowlock.contrib.django.application import project_app
from rowlock.contrib.django.configuration import read_configuration
from rowlock.errors import ConfigurationError
from rowlock.model import ids
from rowlock.model.state import State
from rowlock.store.queries import quoted


def table(name: str) -> str:
    """A table of Rowlock's schema, as Meta.db_table names it."""
    return f"{quoted(read_configuration().settings.schema)}.{quoted(name)}"


class PublicIdField(models.BigAutoField):
    """A job's number in the database, its public id in Python and in addresses."""

    description = "Public id of a job"

    def from_db_value(self, value: int | None, *_: object) -> str | None:
        """The public id."""
        return None if value is None else ids.encode(value)

    def to_python(self, value: Any) -> str | None:  # noqa: ANN401 - Django's
        """The public id of a number or a public id as a person writes it."""
        return None if value is None else ids.encode(ids.parse(value))

    def get_prep_value(self, value: Any) -> int | None:  # noqa: ANN401 - Django's
        """The number; ValueError for a text that is no id."""
        return None if value is None else ids.parse(value)


def _refuse(*_: object, **__: object) -> NoReturn:
    message = (
        "Rowlock's tables are read-only for Django: every change of a job is a guarded statement of Rowlock's. Give an "
        "order instead, such as app.sync.jobs.cancel(job.pk), or enqueue a job."
    )
    raise ConfigurationError(message)


class ReadOnlyQuerySet(models.QuerySet):
    """A query that changes nothing."""

    update = delete = create = bulk_create = bulk_update = get_or_create = update_or_create = _refuse


class RowlockManager(models.Manager.from_queryset(ReadOnlyQuerySet)):  # type: ignore[misc]  # made at run time
    """Reads from the database that settings.ROWLOCK names."""

    def get_queryset(self) -> Any:  # noqa: ANN401 - a QuerySet
        """All rows, whatever the routers of the project say."""
        return super().get_queryset().using(self._db or project_app().configuration.database)


class _ReadOnly(models.Model):
    objects = RowlockManager()

    class Meta:
        abstract = True

    save = delete = _refuse


class Worker(_ReadOnly):
    """A worker process, live or remembered."""

    name = models.TextField()
    host = models.TextField()
    pid = models.IntegerField()
    version = models.TextField()
    state = models.TextField()
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        """Made by Rowlock's own steps."""

        managed = False
        db_table = table("workers")
        default_permissions = ()

    @override
    def __str__(self) -> str:
        """The name: host and process id."""
        return str(self.name)


class Job(_ReadOnly):
    """A job. `pk` is its public id; args and result are stored as they are, secrets included."""

    id = PublicIdField("id", primary_key=True)
    kind = models.TextField()
    state = models.TextField(choices=[(str(state), str(state).replace("_", " ")) for state in State])
    priority = models.SmallIntegerField()
    lane = models.TextField(null=True)
    attempt = models.SmallIntegerField()
    max_attempts = models.SmallIntegerField()
    losses = models.SmallIntegerField()
    tenant = models.TextField(null=True)
    submitted_by = models.TextField(null=True)
    created_at = models.DateTimeField()
    run_after = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    cancel_requested = models.BooleanField()
    claimed_by = models.ForeignKey(
        Worker, models.DO_NOTHING, null=True, db_column="claimed_by", db_constraint=False, related_name="+"
    )
    args = models.JSONField()
    result = models.JSONField(null=True)
    errors = models.JSONField(null=True)
    refs = models.JSONField(null=True)
    meta = models.JSONField(null=True)

    class Meta:
        """Made by Rowlock's own steps."""

        managed = False
        db_table = table("jobs")
        ordering = ("-id",)
        default_permissions = ("view",)
        permissions = (
            ("view_job_args", "Can see secret arguments and results"),
            ("submit_job", "Can submit jobs"),
            ("submit_job_as", "Can submit jobs and give orders in another name"),
            ("cancel_job", "Can cancel jobs"),
            ("retry_job", "Can retry jobs"),
            ("approve_job", "Can approve and reject jobs"),
            ("edit_job", "Can edit waiting jobs"),
            ("delete_job", "Can delete finished jobs"),
            ("manage_workers", "Can manage lanes and workers"),
            ("manage_schedules", "Can manage schedules"),
            ("view_audit", "Can read the audit"),
            ("manage_tokens", "Can manage tokens and roles"),
            ("manage_webhooks", "Can manage webhooks"),
        )

    @override
    def __str__(self) -> str:
        """The kind and the public id."""
        return f"{self.kind} {self.pk}"


class JobAttempt(_ReadOnly):
    """An earlier attempt that the job's own row does not describe: a failed, lost or snoozed one."""

    pk = models.CompositePrimaryKey("job_id", "fence")
    job = models.ForeignKey(Job, models.DO_NOTHING, db_constraint=False, related_name="earlier_attempts")
    fence = models.IntegerField()
    attempt = models.SmallIntegerField(null=True)
    worker_name = models.TextField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField()
    outcome = models.TextField()
    error = models.JSONField(null=True)

    class Meta:
        """Made by Rowlock's own steps."""

        managed = False
        db_table = table("job_attempts")
        ordering = ("job", "fence")
        default_permissions = ()

    @override
    def __str__(self) -> str:
        """The number of the attempt and its outcome."""
        return f"attempt {self.attempt}: {self.outcome}"
