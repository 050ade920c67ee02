"""rowlock webhooks: endpoints of other systems that are told when jobs reach a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.screen import records
from rowlock.cli.screen.output import moment
from rowlock.errors import InvalidOption, WaitTimeout
from rowlock.model.webhook import STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.webhook import NewWebhook, Webhook, WebhookDelivery

group = typer.Typer(no_args_is_help=True, help="Tell other systems, by signed POST requests, when jobs reach a state.")
Id = Annotated[int, typer.Argument(metavar="ID", help="Id of the webhook, as `webhooks ls` shows it.")]
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", help="Kind, or its beginning and a *; may be repeated; default: all.")
]
States = Annotated[
    list[str] | None,
    typer.Option("--state", help=f"One of {', '.join(STATES)}; may be repeated; default: every final one."),
]
Parts = Annotated[
    list[str] | None, typer.Option("--include", help="Also send args, result, errors or meta; may be repeated.")
]
Note = Annotated[str | None, typer.Option(metavar="TEXT", help="Note about the endpoint.")]
Secret = Annotated[
    str | None,
    typer.Option(metavar="WHSEC", envvar="ROWLOCK_WEBHOOK_SECRET", help="Secret to use instead of a new one."),
]
_COLUMNS: Final = ("id", "url", "kinds", "states", "tenant", "health", "delivered", "last error")
_SPARE: Final = ("delivered", "tenant", "states")
_SENT_COLUMNS: Final = ("id", "event", "job", "state", "attempt", "status", "next or end", "error")


@command(group, "ls")
async def ls(context: CommandContext) -> None:
    """List the webhooks and how their deliveries go."""
    _show(context, await context.desk.webhooks.list(), "No webhooks. Add one: rowlock webhooks add URL")


@command(group, "add")
async def add(
    context: CommandContext,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where messages are sent: an https URL.")],
    *,
    kind: Kinds = None,
    state: States = None,
    tenant: Annotated[str | None, typer.Option(help="Only jobs of this tenant; default: jobs of all.")] = None,
    include: Parts = None,
    description: Note = None,
    secret: Secret = None,
) -> None:
    """Add a webhook and print its secret, which receivers verify messages with; it is not shown again."""
    asked = {"kinds": kind, "states": state, "tenant": tenant, "include": include}
    said = {name: value for name, value in asked.items() if value}
    made = await context.desk.webhooks.add(url, **said, description=description, secret=secret)  # type: ignore[arg-type]  # those of add()
    _show_secret(context, made)
    context.screen.note(f"webhook {made.webhook.id} is added. Try it: rowlock webhooks test {made.webhook.id}")


@command(group, "set")
async def change(
    context: CommandContext,
    webhook_id: Id,
    *,
    url: Annotated[str | None, typer.Option(help="Where messages are sent.")] = None,
    kind: Kinds = None,
    state: States = None,
    include: Parts = None,
    nothing: Annotated[bool, typer.Option("--include-nothing", help="Send the usual fields only.")] = False,
    description: Note = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Send messages, or none; enabling forgets failures.")
    ] = None,
) -> None:
    """Change, enable or disable a webhook; what is not given stays as it is."""
    if nothing and include:
        raise InvalidOption("--include and --include-nothing exclude each other.")
    parts = [] if nothing else include
    asked = (url, kind, state, parts, description, enabled)
    if all(value is None for value in asked):
        raise InvalidOption("Nothing to change: add --url, --kind, --state, --include, --description or --enable.")
    webhook = await context.desk.webhooks.change(
        webhook_id, url=url, kinds=kind, states=state, include=parts, description=description, enabled=enabled
    )
    _show(context, [webhook], "")


@command(group, "rm")
async def remove(context: CommandContext, webhook_id: Id) -> None:
    """Remove a webhook and its secrets; deliveries that wait end as cancelled."""
    _show(context, [await context.desk.webhooks.remove(webhook_id)], "")


@command(group, "rotate")
async def rotate(
    context: CommandContext,
    webhook_id: Id,
    *,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long messages are signed with the old secret, too.")
    ] = "1d",
    secret: Secret = None,
) -> None:
    """Give a webhook a new secret and print it; the old one signs as well for the overlap."""
    _show_secret(context, await context.desk.webhooks.rotate(webhook_id, overlap=overlap, secret=secret))


@command(group, "test")
async def send_test(
    context: CommandContext,
    webhook_id: Id,
    *,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait for a worker to send it.")] = 30.0,
) -> None:
    """Send a test message and wait for the answer; a worker sends it, once."""
    sent = await context.desk.webhooks.test(webhook_id)
    try:
        await context.desk.jobs.wait(sent.job.id, timeout=timeout)
    except WaitTimeout:
        message = (
            f"No worker sent {sent.job.public_id} within {timeout:g} s. See: rowlock jobs explain {sent.job.public_id}"
        )
        raise WaitTimeout(message) from None
    (sent, *_) = await context.desk.webhooks.deliveries(webhook_id, limit=1)
    _show_sent(context, [sent])
    if sent.status is None:
        raise typer.Exit(1)


@command(group, "deliveries")
async def deliveries(
    context: CommandContext,
    webhook_id: Id,
    *,
    state: Annotated[str | None, typer.Option(help="Only deliveries in this state, such as failed.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of deliveries.")] = 50,
) -> None:
    """List the deliveries of a webhook, the newest first; `rowlock jobs retry ID` sends one again."""
    _show_sent(context, await context.desk.webhooks.deliveries(webhook_id, state=state, limit=limit))


def _show_secret(context: CommandContext, made: NewWebhook) -> None:
    context.screen.answer(made.secret, records.new_webhook(made))
    context.screen.note("keep it now: it is not shown again.")


def _show(context: CommandContext, webhooks: Sequence[Webhook], empty: str) -> None:
    rows = [
        [
            str(one.id),
            one.url,
            ", ".join(one.kinds),
            ", ".join(one.states),
            one.tenant or "",
            one.health,
            moment(one.delivered_at) or "never",
            one.disabled_reason or (one.last_error or "" if one.failures else ""),
        ]
        for one in webhooks
    ]
    context.screen.table(_COLUMNS, rows, [records.webhook(one) for one in webhooks], empty, _SPARE)


def _show_sent(context: CommandContext, sent: Sequence[WebhookDelivery]) -> None:
    rows = [
        [
            one.job.public_id,
            one.event,
            one.about or "",
            str(one.job.state),
            f"{one.job.attempt}/{one.job.max_attempts}",
            "" if one.status is None else str(one.status),
            moment(one.job.finished_at or one.job.run_after),
            one.error or "",
        ]
        for one in sent
    ]
    context.screen.table(_SENT_COLUMNS, rows, [records.webhook_delivery(one) for one in sent], "No deliveries.", ())
