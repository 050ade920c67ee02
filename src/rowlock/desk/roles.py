"""app.roles: roles, their permissions, and the subjects they are granted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.desk import audit
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.errors import Forbidden, InvalidOption, RoleNotFound, WrongState
from rowlock.model.access import Grant, Permission, Role, known_permissions, permissions_of
from rowlock.model.keys import checked_key
from rowlock.model.spelling.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rowlock.model.access import HeldPermission
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlSession

SEEDED: Final = frozenset({"user", "operator", "platform_admin"})
"""Roles of the schema: they may be changed, but not removed."""
_LONGEST_NAME: Final = 100


class Roles:
    """Roles and grants. A principal gives and takes away only permissions that it holds."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @reads(Permission.TOKENS_MANAGE)
    async def get(self, name: str) -> Role:
        """One role; RoleNotFound if there is none of that name."""
        return (await self._known([name]))[0]

    @changes(Permission.TOKENS_MANAGE)
    async def set(self, name: str, permissions: Iterable[str]) -> Role:
        """Create the role, or replace its permissions."""
        if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
            message = f"A role's name has 1 to {_LONGEST_NAME} printable characters; got {name!r}."
            raise InvalidOption(message)
        wanted = permissions_of(permissions)
        before = {role.name: role for role in await self._all()}.get(name)
        holds(self._guard, wanted | (before.permissions if before else frozenset()))
        if before is not None and before.permissions == wanted:
            return before
        async with self._open().transaction() as session:
            (row,) = await session.fetch("role_set", name=name, permissions=sorted(wanted))
            role = role_of(row)
            await self._record(session, "role.set", name, _shown(before) if before else None, _shown(role))
        return role

    @changes(Permission.TOKENS_MANAGE)
    async def delete(self, name: str) -> Role:
        """Remove a role and every grant of it. The roles that came with the schema stay."""
        if name in SEEDED:
            message = f"The role {name!r} came with the schema and stays. Change its permissions instead."
            raise WrongState(message)
        (role,) = await self._known([name])
        holds(self._guard, role.permissions)
        async with self._open().transaction() as session:
            if await session.fetch("role_delete", name=name):
                await self._record(session, "role.delete", name, _shown(role), None)
        return role

    @changes(Permission.TOKENS_MANAGE)
    async def grant(self, subject: str, role: str, *, by: str | None = None) -> Role:
        """Grant a role to a subject, as its host, identity provider or token names it."""
        checked_key(subject, "subject")
        (known,) = await self._known([role])
        holds(self._guard, known.permissions)
        async with self._open().transaction() as session:
            if await session.fetch("role_grant", subject=subject, role=role, by_whom=self._guard.name_of(by)):
                await self._record(session, "role.grant", role, None, {"subject": subject}, by=by)
        return known

    @changes(Permission.TOKENS_MANAGE)
    async def revoke(self, subject: str, role: str, *, by: str | None = None) -> Role:
        """Take a role away from a subject."""
        (known,) = await self._known([role])
        holds(self._guard, known.permissions)
        async with self._open().transaction() as session:
            if await session.fetch("role_revoke", subject=subject, role=role):
                await self._record(session, "role.revoke", role, {"subject": subject}, None, by=by)
                return known
        message = f"{subject!r} was not given the role {role!r}. See rowlock roles ls."
        raise WrongState(message)

    @reads(Permission.TOKENS_MANAGE)
    async def grants(self, subject: str | None = None, *, limit: int = 1000) -> Sequence[Grant]:
        """Every grant of a role to a subject."""
        found = await self._open().fetch("role_grants", subject=subject, n=limit)
        return [Grant(**dict(row)) for row in found]

    @reads(Permission.TOKENS_MANAGE)
    async def list(self) -> list[Role]:
        """Every role, by name."""
        return list(await self._all())

    async def _all(self) -> Sequence[Role]:
        return [role_of(row) for row in await self._open().fetch("roles")]

    async def _known(self, names: Sequence[str]) -> Sequence[Role]:
        return known(names, await self._all())

    async def _record(
        self,
        session: SqlSession,
        action: str,
        name: str,
        before: dict[str, object] | None,
        after: dict[str, object] | None,
        *,
        by: str | None = None,
    ) -> None:
        await audit.record(session, self._guard, action, f"role:{name}", before=before, after=after, by=by)


def _shown(role: Role) -> dict[str, object]:
    return {"permissions": role.permissions}


def role_of(row: Record) -> Role:
    """A Role from its row."""
    return Role(row["name"], known_permissions(row["permissions"]), row["updated_at"])


def known(names: Sequence[str], roles: Sequence[Role]) -> Sequence[Role]:
    """The roles of these names; RoleNotFound names the first that does not exist."""
    by_name = {role.name: role for role in roles}
    for name in names:
        if name not in by_name:
            near = closest(name, by_name, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            message = f"There is no role {name!r}; there are {', '.join(sorted(by_name))}.{hint}"
            raise RoleNotFound(message)
    return [by_name[name] for name in names]


def holds(guard: Guard, permissions: frozenset[HeldPermission]) -> None:
    """Raise Forbidden unless the principal holds all of these permissions itself, each at least as widely."""
    missing = sorted(one for one in permissions if not guard.principal.covers(one))
    if missing:
        message = f"{guard.principal.name} does not hold {', '.join(missing)}, and can neither give nor take it."
        raise Forbidden(message, missing[0])
