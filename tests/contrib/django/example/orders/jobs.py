"""Jobs of the shop."""

from __future__ import annotations

import os
import time
from pathlib import Path

from django.db import connection
from django.db.models import F

from orders.models import Order
from rowlock import Context, Retry, SyncContext
from rowlock.contrib.django import app


@app.job
def send_receipt(order_id: int) -> str:
    """Uses the ORM in a thread."""
    Order.objects.filter(pk=order_id).update(receipts=F("receipts") + 1)
    return str(Order.objects.get(pk=order_id).customer)


@app.job
async def send_receipt_async(order_id: int) -> str:
    """Uses the ORM's async methods on the worker's loop."""
    await Order.objects.filter(pk=order_id).aupdate(receipts=F("receipts") + 1)
    return str((await Order.objects.aget(pk=order_id)).customer)


@app.job(executor="process")
def send_receipt_apart(order_id: int) -> str:
    """Uses the ORM in a child process."""
    Order.objects.filter(pk=order_id).update(receipts=F("receipts") + 1)
    return f"{os.getpid()} {Order.objects.get(pk=order_id).customer}"


@app.job
def backend_pid() -> int:
    """The process id of Django's connection to the server."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


@app.job
async def backend_pid_async() -> int:
    from asgiref.sync import sync_to_async  # noqa: PLC0415 - with Django

    return await sync_to_async(backend_pid)()


@app.job(approval=True)
def refund(order_id: int) -> None:
    """Waits for approval."""


@app.job(retry=Retry(attempts=1))
def fail(api_key: str = "") -> None:
    message = f"the printer is on fire {api_key}"
    raise RuntimeError(message)


@fail.on_exhausted
def complain() -> None:
    Order.objects.create(customer="complaint")


@app.job
def count_slowly(ctx: SyncContext, marker: str) -> None:
    """Reports progress and then waits to be killed."""
    with ctx.phase("count", total=10) as phase:
        phase.advance(3)
    first = not Path(marker).exists()
    Path(marker).touch()
    while first:
        time.sleep(0.05)


@app.job
async def guarded(ctx: Context) -> None:
    del ctx


@app.job
def guarded_sync(ctx: SyncContext, order_id: int) -> None:
    """Changes an order in a transaction that holds the claim."""
    from django.db import transaction  # noqa: PLC0415 - with Django

    with transaction.atomic(), ctx.guarded(connection):
        Order.objects.filter(pk=order_id).update(receipts=7)
