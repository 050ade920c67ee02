"""Who brings jobs to the processes that run them: PostgreSQL alone or, where a Celery broker is named, Celery."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowlock.delivery.celery import CeleryDelivery


def carrier() -> CeleryDelivery | None:
    """Celery's delivery, if CELERY_BROKER_URL is set; None: Rowlock's own workers listen to PostgreSQL."""
    broker = os.environ.get("CELERY_BROKER_URL")
    if not broker:
        return None
    from celery import Celery  # noqa: PLC0415 - a deployment without Celery does not install it

    from rowlock.delivery.celery import CeleryDelivery  # noqa: PLC0415 - as above

    celery_app = Celery("emissions", broker=broker)
    celery_app.conf.update(
        worker_prefetch_multiplier=1, task_ignore_result=True, broker_connection_retry_on_startup=True
    )
    return CeleryDelivery(celery_app)
