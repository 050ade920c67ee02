from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from orders.jobs import send_receipt
from orders.models import Order

from rowlock.contrib.django.models import Job
from rowlock.errors import InvalidOption

if TYPE_CHECKING:
    from rowlock.contrib.django.application import DjangoRowlock


def kinds() -> list[str]:
    return list(Job.objects.values_list("kind", flat=True))


@pytest.mark.usefixtures("project")
def test_a_job_is_committed_with_the_surrounding_transaction() -> None:
    with transaction.atomic():
        order = Order.objects.create(customer="ada")
        job = send_receipt.enqueue_sync(order.pk)
        assert kinds() == ["send_receipt"]
        assert count_elsewhere() == 0
    assert count_elsewhere() == 1
    assert Job.objects.get(pk=job.public_id).kind == "send_receipt"


def count_elsewhere() -> int:
    """Jobs that a connection of Rowlock's own sees."""
    from rowlock.contrib.django import app  # noqa: PLC0415 - after set_up()

    return len(app.sync.jobs.list())
