"""rowlock tokens: API tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.screen import records
from rowlock.cli.screen.output import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.access import Token

group = typer.Typer(no_args_is_help=True, help="Make, rotate and revoke API tokens.")
_COLUMNS: Final = (
    "id",
    "name",
    "subject",
    "tenant",
    "roles",
    "permissions",
    "created",
    "expires",
    "last used",
    "state",
)
_SPARE: Final = ("created", "permissions", "subject", "tenant", "expires")


@command(group, "create")
async def create(
    context: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token; need not be unique.")],
    *,
    role: Annotated[list[str] | None, typer.Option(help="Role of the token; may be repeated.")] = None,
    permission: Annotated[
        list[str] | None, typer.Option(help="Permission of the token, such as jobs:read; may be repeated.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Tenant whose jobs the token sees and submits.")] = None,
    subject: Annotated[str | None, typer.Option(help="Subject that the token acts as; default: token:NAME.")] = None,
    expires_in: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Time until the token expires, or never; default: 90 days."),
    ] = None,
) -> None:
    """Make a token and print it; only its hash is stored, so it cannot be shown again."""
    made = await context.desk.tokens.create(
        name,
        roles=role or (),
        permissions=permission or (),
        tenant=tenant,
        subject=subject,
        expires_in=expires_in,
    )
    context.screen.answer(made.text, {**records.new_token(made), "state": _state(made.token)})
    context.screen.note("keep it now: it is not shown again.")


@command(group, "rotate")
async def rotate(
    context: CommandContext,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Id or name of the token.")],
    *,
    overlap: Annotated[str, typer.Option(metavar="DURATION", help="How long the old secret is still accepted.")] = "1d",
    expires_in: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Time until the token expires, or never; default: as long as before."),
    ] = None,
) -> None:
    """Give a token a new secret and print it; the old one stays valid for the overlap."""
    made = await context.desk.tokens.rotate(token, overlap=overlap, expires_in=expires_in)
    context.screen.answer(made.text, {**records.new_token(made), "state": _state(made.token)})
    context.screen.note(f"keep it now: it is not shown again. The old secret is valid for {overlap} more.")


@command(group, "ls")
async def ls(context: CommandContext) -> None:
    """List the tokens with their permissions and last use."""
    _show(context, await context.desk.tokens.list(), "No tokens.")


@command(group, "revoke")
async def revoke(
    context: CommandContext,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, as `tokens ls` shows it.")],
) -> None:
    """Revoke a token, and end every session that was opened with it."""
    _show(context, [await context.desk.tokens.revoke(token_id)], "")


def _show(context: CommandContext, tokens: Sequence[Token], empty: str) -> None:
    rows = [
        [
            token.id,
            token.name,
            token.subject,
            token.tenant or "",
            ", ".join(token.roles),
            ", ".join(sorted(token.permissions)),
            moment(token.created_at),
            moment(token.expires_at),
            moment(token.last_used_at) or "never",
            _state(token),
        ]
        for token in tokens
    ]
    context.screen.table(_COLUMNS, rows, [_record(token) for token in tokens], empty, _SPARE)


def _state(token: Token) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at < datetime.now(UTC) else "valid"


def _record(token: Token) -> dict[str, Any]:
    return {**records.token(token), "state": _state(token)}
