"""rowlock mcp: a server of the Model Context Protocol, for assistants that look at jobs."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowlock.cli.command import register_sync
from rowlock.cli.context import CommandContext, current_user
from rowlock.errors import InvalidOption, RoleNotFound

if TYPE_CHECKING:
    from rowlock.app import Rowlock
    from rowlock.model.access import Principal

_ROLE: Final = "operator"


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    register_sync(root, "mcp", serve_mcp, lambda context, options: asyncio.run(_serve(context, **options)))


def serve_mcp(
    context: CommandContext,
    *,
    token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", envvar="ROWLOCK_MCP_TOKEN", help="API token whose permissions hold."),
    ] = None,
    role: Annotated[str | None, typer.Option(help=f"Role instead of a token, for local use; default: {_ROLE}.")] = None,
    tenant: Annotated[str | None, typer.Option(help="With --role: only jobs of this tenant.")] = None,
    allow_orders: Annotated[
        bool, typer.Option("--allow-orders", help="Offer orders, too: cancel, retry, approve, reject, priority, drain.")
    ] = False,
) -> None:
    """Serve the Model Context Protocol on standard input and output, for an assistant that starts this command.

    Read-only unless --allow-orders is given. Permissions, tenants and the audit are those of the token or role; secret
    arguments are masked in any case.
    """


async def _serve(
    context: CommandContext, *, token: str | None, role: str | None, tenant: str | None, allow_orders: bool
) -> None:
    from rowlock.cli.mcp_server import McpTools

    if token is not None and (role is not None or tenant is not None):
        raise InvalidOption("A token has its own role and tenant: give --token, or --role and --tenant.")
    try:
        await context.require_schema()
        who = functools.partial(_principal, context.app, token, role or _ROLE, tenant)
        await who()  # a wrong token or role is said at once, and not with the first question
        await McpTools(context.app, who, orders=allow_orders).server().run_stdio_async()
    finally:
        await context.close()


async def _principal(app: Rowlock, token: str | None, role: str, tenant: str | None) -> Principal:
    if token is not None:
        return await app.identity.by_token(token, address="mcp")
    known = [found.name for found in await app.roles.list()]
    if role not in known:
        raise RoleNotFound(f"There is no role {role!r}; there are {', '.join(known)}.")
    return await app.identity.of(f"mcp:{current_user() or 'local'}", roles=[role], tenant=tenant)
