"""Webhooks and their deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, StringConstraints

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import YEAR, Answer, Body, DurationInput, doc
from rowlock.api.schemas.fields import INSTANT, STORABLE, Text
from rowlock.model.state import State

if TYPE_CHECKING:
    from rowlock.model.webhook import NewWebhook, Webhook, WebhookDelivery

_URL = "https://example.com/hooks/rowlock"
_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - the example of Standard Webhooks
_KINDS = ["report.*"]
_STATES = ["completed", "failed"]
StateName = Literal["pending", "completed", "completed_with_errors", "failed", "cancelled", "expired"]
PartName = Literal["args", "result", "errors", "meta"]
Url = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=STORABLE)]
Kind = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=STORABLE)]
Description = Annotated[str, StringConstraints(max_length=500, pattern=STORABLE)]
Secret = Annotated[str, StringConstraints(max_length=200, pattern=STORABLE)]
Kinds = Annotated[list[Kind], Field(min_length=1, max_length=100)]
States = Annotated[list[StateName], Field(min_length=1, max_length=20)]
Parts = Annotated[list[PartName], Field(max_length=10)]


class WebhookAnswer(Answer):
    """An endpoint that is told when jobs reach a state, without its secrets."""

    id: Annotated[str, doc("Id of the webhook.", "3")]
    url: Annotated[str, doc("Where messages are sent.", _URL)]
    kinds: Annotated[list[str], doc("Kinds it is told of: names, or their beginning and a *.", _KINDS)]
    states: Annotated[list[State], doc("States it is told of.", _STATES)]
    tenant: Annotated[str | None, doc("Tenant whose jobs it is told of; null: jobs of all.", "acme")]
    include: Annotated[list[str], doc("Parts of a job that are sent besides the usual ones.", ["result"])]
    description: Annotated[str | None, doc("Note about the endpoint; null: none.", "the data warehouse")]
    enabled: Annotated[bool, doc("Whether messages are sent.", True)]
    disabled_reason: Annotated[
        str | None, doc("Why failing deliveries disabled it; null: they did not.", "the endpoint answered 410 Gone")
    ]
    health: Annotated[str, doc("How it fares: new, healthy, failing (the last attempt failed) or disabled.", "healthy")]
    version: Annotated[int, doc("Raised by every change.", 1)]
    created_at: fields.CreatedAt
    created_by: Annotated[str | None, doc("Subject that added it; null: unknown.", "ada@example.com")]
    updated_at: Annotated[datetime, doc("When it was last changed.", INSTANT)]
    delivered_at: Annotated[datetime | None, doc("When a message was last accepted; null: never.", INSTANT)]
    failed_at: Annotated[datetime | None, doc("When an attempt last failed; null: never.", INSTANT)]
    last_error: Annotated[str | None, doc("Why it failed; null: never.", "the endpoint answered 500")]
    failures: Annotated[int, doc("Attempts that failed in a row.", 0)]
    given_up: Annotated[int, doc("Deliveries given up in a row; ten disable the webhook.", 0)]

    @classmethod
    def of(cls, webhook: Webhook, **more: object) -> WebhookAnswer:
        """From the desk's value. more: fields of a subclass."""
        values = {name: getattr(webhook, name) for name in WebhookAnswer.model_fields}
        return cls.model_validate({**values, "id": str(webhook.id), **more})


class NewWebhookAnswer(WebhookAnswer):
    """A webhook with a secret that was just made."""

    secret: Annotated[str, doc("Secret that receivers verify messages with: shown this once.", _SECRET)]

    @classmethod
    def with_secret(cls, made: NewWebhook) -> NewWebhookAnswer:
        """From the desk's value."""
        return cls.model_validate(WebhookAnswer.of(made.webhook).model_dump() | {"secret": made.secret})


class WebhooksAnswer(Answer):
    """Webhooks that the caller sees."""

    items: Annotated[list[WebhookAnswer], doc("Webhooks by id.")]


class WebhookBody(Body):
    """An endpoint to add."""

    url: Annotated[Url, doc("Where messages are sent: an https URL.", _URL)]
    kinds: Annotated[Kinds, doc("Kinds: names, or their beginning and a *; default: all.", _KINDS)] = ["*"]  # noqa: RUF012 - pydantic copies it
    states: Annotated[States | None, doc("States; null: every final one.", _STATES)] = None
    tenant: Annotated[Text | None, doc("Tenant whose jobs it is told of; null: the caller's, or all.", "acme")] = None
    include: Annotated[Parts, doc("Parts of a job to send besides the usual ones.", ["result"])] = []  # noqa: RUF012 - as above
    description: Annotated[Description | None, doc("Note about the endpoint; null: none.", "the data warehouse")] = None
    secret: Annotated[
        Secret | None, doc("Secret to use, whsec_ and 24 to 64 bytes in base64; null: one is made.", _SECRET)
    ] = None


class WebhookChange(Body):
    """Changes to a webhook. Absent and null fields stay as they are."""

    url: Annotated[Url | None, doc("Where messages are sent; null: unchanged.", _URL)] = None
    kinds: Annotated[Kinds | None, doc("Kinds; null: unchanged.", _KINDS)] = None
    states: Annotated[States | None, doc("States; null: unchanged.", _STATES)] = None
    include: Annotated[Parts | None, doc("Parts to send besides the usual ones; null: unchanged.", ["result"])] = None
    description: Annotated[Description | None, doc("Note; empty: none; null: unchanged.", "the data warehouse")] = None
    enabled: Annotated[bool | None, doc("Send messages, or none; null: unchanged.", True)] = None


class WebhookRotation(Body):
    """A new secret."""

    overlap: Annotated[
        Annotated[float, DurationInput(0, YEAR)], doc("How long messages are signed with the old one, too.", "1d")
    ] = 86_400.0
    secret: Annotated[
        Secret | None, doc("Secret to use, whsec_ and 24 to 64 bytes in base64; null: one is made.", _SECRET)
    ] = None


class WebhookDeliveryAnswer(Answer):
    """A message to an endpoint. It is a job: its id works with the routes of jobs."""

    id: Annotated[str, doc("Public id of the delivery's own job; the message's webhook-id.", fields.JOB_ID)]
    webhook_id: Annotated[str, doc("Id of the webhook.", "3")]
    event: Annotated[str, doc("Type of the message.", "job.completed")]
    job_id: Annotated[str | None, doc("Public id of the job that it tells of; null: a test.", fields.JOB_ID)]
    state: Annotated[State, doc("State of the delivery.", "completed")]
    attempt: fields.Attempt
    max_attempts: fields.MaxAttempts
    status: Annotated[int | None, doc("HTTP status that accepted it; null: none has.", 204)]
    error: Annotated[str | None, doc("Why the last attempt failed; null: it did not.", "the endpoint answered 500")]
    created_at: fields.CreatedAt
    run_after: fields.RunAfter
    finished_at: fields.FinishedAt

    @classmethod
    def of(cls, sent: WebhookDelivery) -> WebhookDeliveryAnswer:
        """From the desk's value."""
        names = ("state", "attempt", "max_attempts", "created_at", "run_after", "finished_at")
        return cls(
            id=sent.job.public_id,
            webhook_id=str(sent.webhook_id),
            event=sent.event,
            job_id=sent.about,
            status=sent.status,
            error=sent.error,
            **{name: getattr(sent.job, name) for name in names},
        )


class WebhookDeliveriesAnswer(Answer):
    """Deliveries of a webhook."""

    items: Annotated[list[WebhookDeliveryAnswer], doc("Deliveries, the newest first.")]
