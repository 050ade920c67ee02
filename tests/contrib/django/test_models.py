from __future__ import annotations

import pytest
from orders.jobs import fail, send_receipt

from rowlock.contrib.django import app
from rowlock.contrib.django.models import Job
from rowlock.errors import ConfigurationError

pytestmark = pytest.mark.usefixtures("project")


def test_the_key_of_a_job_is_its_public_id() -> None:
    made = send_receipt.enqueue_sync(1)
    job = Job.objects.get(pk=made.public_id)
    assert (job.pk, job.kind, job.args) == (made.public_id, "send_receipt", {"order_id": 1})
    assert Job.objects.get(pk=made.id) == job
    assert list(Job.objects.filter(pk__in=[made.public_id.lower()])) == [job]
    assert str(job) == f"send_receipt {made.public_id}"


def test_earlier_attempts_belong_to_their_job() -> None:
    made = fail.options(max_attempts=1).enqueue_sync()
    app.wait_for(app.run_job(made.id))
    job = Job.objects.select_related("claimed_by").get(pk=made.public_id)
    assert job.state == "failed"
    assert [each.job_id for each in job.earlier_attempts.all()] in ([], [made.public_id])


def test_jobs_are_read_only() -> None:
    send_receipt.enqueue_sync(1)
    job = Job.objects.get()
    for change in (
        job.save,
        job.delete,
        Job.objects.all().delete,
        lambda: Job.objects.update(priority=3),
        lambda: Job.objects.create(kind="x"),
        lambda: Job.objects.bulk_create([]),
    ):
        with pytest.raises(ConfigurationError, match="read-only for Django"):
            change()
    assert Job.objects.get().priority == 0
