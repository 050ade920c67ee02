"""rowlock roles: roles, their permissions, and the subjects they are granted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rowlock.cli.command import command
from rowlock.cli.context import CommandContext
from rowlock.cli.screen import records
from rowlock.model.access import Permission

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.access import Grant, Role

group = typer.Typer(no_args_is_help=True, help="Read and change roles.")
Name = Annotated[str, typer.Argument(metavar="ROLE", help="Name of the role.")]
Subject = Annotated[
    str, typer.Argument(metavar="SUBJECT", help="Subject, as the host, the identity provider or a token names it.")
]
_COLUMNS: Final = ("role", "permissions", "granted to")


@command(group, "ls")
async def ls(context: CommandContext) -> None:
    """List the roles, their permissions, and the subjects they are granted to."""
    roles = context.desk.roles
    _show(context, await roles.list(), await roles.grants())


@command(group, "set")
async def change(
    context: CommandContext,
    name: Name,
    permissions: Annotated[
        list[str],
        typer.Argument(
            metavar="PERMISSION...", help=f"All permissions of the role; there are {', '.join(Permission)}."
        ),
    ],
) -> None:
    """Create a role, or replace its permissions."""
    role = await context.desk.roles.set(name, permissions)
    _show(context, [role], await context.desk.roles.grants())


@command(group, "rm")
async def remove(context: CommandContext, name: Name) -> None:
    """Remove a role and every grant of it."""
    role = await context.desk.roles.delete(name)
    context.screen.answer(f"{role.name} removed", _record(role, ()))


@command(group, "grant")
async def grant(context: CommandContext, subject: Subject, name: Name) -> None:
    """Grant a role to a subject."""
    role = await context.desk.roles.grant(subject, name)
    _show(context, [role], await context.desk.roles.grants())


@command(group, "revoke")
async def revoke(context: CommandContext, subject: Subject, name: Name) -> None:
    """Take a role away from a subject."""
    role = await context.desk.roles.revoke(subject, name)
    _show(context, [role], await context.desk.roles.grants())


def _show(context: CommandContext, roles: Sequence[Role], grants: Sequence[Grant]) -> None:
    rows = [[role.name, ", ".join(sorted(role.permissions)), ", ".join(_held(role, grants))] for role in roles]
    context.screen.table(_COLUMNS, rows, [_record(role, grants) for role in roles], "No roles.")


def _held(role: Role, grants: Sequence[Grant]) -> list[str]:
    return [grant.subject for grant in grants if grant.role == role.name]


def _record(role: Role, grants: Sequence[Grant]) -> dict[str, Any]:
    return {**records.role(role), "granted_to": _held(role, grants)}
