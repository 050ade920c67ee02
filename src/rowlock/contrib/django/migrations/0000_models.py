"""The unmanaged models, for Django's records of models and permissions; the tables come with the steps after it."""

from __future__ import annotations

from django.db import migrations, models

from rowlock.contrib.django import models as rowlock_models
from rowlock.contrib.django.models import table


class Migration(migrations.Migration):
    """The state of the models; no table is made or changed."""

    initial = True
    dependencies: tuple[tuple[str, str], ...] = ()
    operations = (
        migrations.CreateModel(
            "Worker",
            [("id", models.BigAutoField(primary_key=True)), ("name", models.TextField())],
            options={"managed": False, "db_table": table("workers"), "default_permissions": ()},
        ),
        migrations.CreateModel(
            "Job",
            [("id", rowlock_models.PublicIdField(primary_key=True)), ("kind", models.TextField())],
            options={
                "managed": False,
                "db_table": table("jobs"),
                "ordering": ("-id",),
                "default_permissions": ("view",),
                "permissions": (
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
                ),
            },
        ),
        migrations.CreateModel(
            "JobAttempt",
            [
                ("pk", models.CompositePrimaryKey("job_id", "fence")),
                ("job", models.ForeignKey("rowlock.job", models.DO_NOTHING, db_constraint=False)),
                ("fence", models.IntegerField()),
            ],
            options={
                "managed": False,
                "db_table": table("job_attempts"),
                "ordering": ("job", "fence"),
                "default_permissions": (),
            },
        ),
    )
