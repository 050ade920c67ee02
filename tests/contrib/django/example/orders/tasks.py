"""Tasks of the shop, for Django's Tasks framework."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import django

from orders.models import Order

if django.VERSION >= (6,):
    from django.tasks import task
else:
    from django_tasks import task


@task
def thank(order_id: int) -> str:
    return f"thank you, {Order.objects.get(pk=order_id).customer}"


@task
async def thank_async(order_id: int) -> str:
    return f"thank you, {(await Order.objects.aget(pk=order_id)).customer}"


@task(queue_name="emails", priority=7)
def email(*words: str, **more: object) -> dict[str, Any]:
    return {"words": words, **more}


@task(takes_context=True)
def about(context: Any) -> dict[str, Any]:  # noqa: ANN401 - a TaskContext
    result = context.task_result
    return {"id": result.id, "attempt": context.attempt, "queue": result.task.queue_name, "workers": result.worker_ids}


@task
def explode() -> None:
    message = "This task failed"
    raise ValueError(message)


@task
def unstorable() -> object:
    return lambda: True


@task
def leave() -> None:
    raise SystemExit("enough")


@task
def killed_once(marker: str) -> str:
    """Waits to be killed the first time it runs."""
    first = not Path(marker).exists()
    Path(marker).touch()
    while first:
        time.sleep(0.05)
    return "survived"
