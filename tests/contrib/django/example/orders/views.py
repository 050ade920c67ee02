"""Views of the shop."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, JsonResponse

from orders.jobs import send_receipt
from orders.models import Order


def place(request: HttpRequest, customer: str) -> JsonResponse:
    """The order and its job are committed together."""
    del request
    with transaction.atomic():
        order = Order.objects.create(customer=customer)
        job = send_receipt.enqueue_sync(order.pk)
    return JsonResponse({"job": job.public_id}, status=202)


async def place_async(request: HttpRequest, customer: str) -> JsonResponse:
    del request
    order = await Order.objects.acreate(customer=customer)
    job = await send_receipt.enqueue(order.pk)
    return JsonResponse({"job": job.public_id}, status=202)
