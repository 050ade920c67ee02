"""rowlock roles: which permissions go under which name, and who was given it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rowlock.cli.call import Call
from rowlock.cli.command import command
from rowlock.cli.screen import records
from rowlock.model.access import Permission

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.access import Grant, Role

group = typer.Typer(no_args_is_help=True, help="See and change who may do what.")
Name = Annotated[str, typer.Argument(metavar="ROLE", help="The role's name.")]
Subject = Annotated[
    str, typer.Argument(metavar="SUBJECT", help="Whom the host, the identity provider or a token names.")
]
_COLUMNS: Final = ("role", "permissions", "granted to")


@command(group, "ls")
async def ls(call: Call) -> None:
    """List the roles, their permissions, and to whom they were granted."""
    roles = call.desk.roles
    _show(call, await roles.list(), await roles.grants())


@command(group, "set")
async def change(
    call: Call,
    name: Name,
    permissions: Annotated[
        list[str], typer.Argument(metavar="PERMISSION...", help=f"All it is to have, of: {', '.join(Permission)}.")
    ],
) -> None:
    """Create a role, or give it these permissions instead of those it has."""
    role = await call.desk.roles.set(name, permissions)
    _show(call, [role], await call.desk.roles.grants())


@command(group, "rm")
async def remove(call: Call, name: Name) -> None:
    """Remove a role and every grant of it."""
    role = await call.desk.roles.delete(name)
    call.screen.said(f"{role.name} removed", _record(role, ()))


@command(group, "grant")
async def grant(call: Call, subject: Subject, name: Name) -> None:
    """Give a role to a subject."""
    role = await call.desk.roles.grant(subject, name)
    _show(call, [role], await call.desk.roles.grants())


@command(group, "revoke")
async def revoke(call: Call, subject: Subject, name: Name) -> None:
    """Take a role away from a subject again."""
    role = await call.desk.roles.revoke(subject, name)
    _show(call, [role], await call.desk.roles.grants())


def _show(call: Call, roles: Sequence[Role], grants: Sequence[Grant]) -> None:
    rows = [[role.name, ", ".join(sorted(role.permissions)), ", ".join(_held(role, grants))] for role in roles]
    call.screen.table(_COLUMNS, rows, [_record(role, grants) for role in roles], "No roles.")


def _held(role: Role, grants: Sequence[Grant]) -> list[str]:
    return [grant.subject for grant in grants if grant.role == role.name]


def _record(role: Role, grants: Sequence[Grant]) -> dict[str, Any]:
    return {**records.role(role), "granted_to": _held(role, grants)}
