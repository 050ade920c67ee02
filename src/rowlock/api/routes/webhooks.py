"""Webhooks: read, add, change, remove, rotate, test, list deliveries."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path, Query

from rowlock.api.dependencies import CurrentDesk, Limit
from rowlock.api.route_permissions import RoutePermissions
from rowlock.api.routing import Routes
from rowlock.api.schemas.webhooks import (
    NewWebhookAnswer,
    WebhookAnswer,
    WebhookBody,
    WebhookChange,
    WebhookDeliveriesAnswer,
    WebhookDeliveryAnswer,
    WebhookRotation,
    WebhooksAnswer,
)
from rowlock.model.access import Permission
from rowlock.model.state import State

routes = Routes("webhooks")
WebhookId = Annotated[int, Path(ge=1, le=2**63 - 1, description="Id of the webhook.", examples=[3])]
DeliveryState = Annotated[
    State | None, Query(description="Only deliveries in this state; null: all.", examples=["failed"])
]
_READS: Final = RoutePermissions((Permission.WEBHOOKS_MANAGE, Permission.READ))
_ADDS: Final = RoutePermissions(
    (Permission.WEBHOOKS_MANAGE, Permission.READ), also={"for another tenant, or all": Permission.READ_ALL}
)
_MISSING: Final = ("webhook-not-found",)
_INVALID: Final = ("invalid-option", "webhook-refused")


@routes.get("/webhooks", needs=Permission.WEBHOOKS_MANAGE)
async def list_webhooks(desk: CurrentDesk) -> WebhooksAnswer:
    """Webhooks of one's tenant; with `jobs:read_all` those of all."""
    return WebhooksAnswer(items=[WebhookAnswer.of(webhook) for webhook in await desk.webhooks.list()])


@routes.post("/webhooks", needs=_ADDS, status_code=201, problems=(*_INVALID, "conflict"))
async def create_webhook(desk: CurrentDesk, webhook: WebhookBody) -> NewWebhookAnswer:
    """Add an endpoint that is sent a signed message when a job reaches a state. The answer alone has its secret."""
    fields = webhook.model_dump(exclude_none=True)
    return NewWebhookAnswer.with_secret(await desk.webhooks.add(fields.pop("url"), **fields))


@routes.get("/webhooks/{webhook_id}", needs=Permission.WEBHOOKS_MANAGE, problems=_MISSING)
async def get_webhook(desk: CurrentDesk, webhook_id: WebhookId) -> WebhookAnswer:
    """One webhook, and how its deliveries go."""
    return WebhookAnswer.of(await desk.webhooks.get(webhook_id))


@routes.patch("/webhooks/{webhook_id}", needs=_READS, problems=(*_MISSING, *_INVALID))
async def change_webhook(desk: CurrentDesk, webhook_id: WebhookId, change: WebhookChange) -> WebhookAnswer:
    """Change, enable or disable a webhook. Enabling forgets earlier failures."""
    return WebhookAnswer.of(await desk.webhooks.change(webhook_id, **change.model_dump(exclude_none=True)))


@routes.delete("/webhooks/{webhook_id}", needs=Permission.WEBHOOKS_MANAGE, problems=_MISSING)
async def delete_webhook(desk: CurrentDesk, webhook_id: WebhookId) -> WebhookAnswer:
    """Remove a webhook and its secrets; deliveries that wait end as cancelled. Answers with it as it was."""
    return WebhookAnswer.of(await desk.webhooks.remove(webhook_id))


@routes.post("/webhooks/{webhook_id}/rotate", needs=Permission.WEBHOOKS_MANAGE, problems=(*_MISSING, "invalid-option"))
async def rotate_webhook(desk: CurrentDesk, webhook_id: WebhookId, rotation: WebhookRotation) -> NewWebhookAnswer:
    """Give a webhook a new secret; for the overlap messages are signed with both. The answer alone has it."""
    made = await desk.webhooks.rotate(webhook_id, overlap=rotation.overlap, secret=rotation.secret)
    return NewWebhookAnswer.with_secret(made)


@routes.post("/webhooks/{webhook_id}/test", needs=Permission.WEBHOOKS_MANAGE, status_code=202, problems=_MISSING)
async def test_webhook(desk: CurrentDesk, webhook_id: WebhookId) -> WebhookDeliveryAnswer:
    """Send a message of the type `webhook.test`, once, also to a disabled webhook; a worker sends it."""
    return WebhookDeliveryAnswer.of(await desk.webhooks.test(webhook_id))


@routes.get("/webhooks/{webhook_id}/deliveries", needs=_READS, problems=_MISSING)
async def list_deliveries(
    desk: CurrentDesk, webhook_id: WebhookId, state: DeliveryState = None, *, limit: Limit = 50
) -> WebhookDeliveriesAnswer:
    """Deliveries of a webhook, the newest first. Each is a job; a failed one is sent again by retrying it."""
    found = await desk.webhooks.deliveries(webhook_id, state=state, limit=limit)
    return WebhookDeliveriesAnswer(items=[WebhookDeliveryAnswer.of(sent) for sent in found])
