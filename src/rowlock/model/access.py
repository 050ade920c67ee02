"""Access: who asks, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from rowlock.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterable

PrincipalKind = Literal["user", "token", "system"]


class Permission(StrEnum):
    """What a principal may be allowed to do; each method of the desk asks for one."""

    READ = "jobs:read"
    READ_ALL = "jobs:read_all"
    """Without it, only the tenant's jobs are seen, or one's own."""
    READ_ARGS = "jobs:read_args"
    """Without it, secret arguments and results are masked."""
    SUBMIT = "jobs:submit"
    SUBMIT_AS = "jobs:submit_as"
    """Submit or order in the name of somebody else, for any tenant."""
    APPROVE = "jobs:approve"
    CANCEL = "jobs:cancel"
    RETRY = "jobs:retry"
    EDIT = "jobs:edit"
    DELETE = "jobs:delete"
    WORKERS_VIEW = "workers:view"
    WORKERS_MANAGE = "workers:manage"
    SCHEDULES_VIEW = "schedules:view"
    SCHEDULES_MANAGE = "schedules:manage"
    AUDIT_READ = "audit:read"
    TOKENS_MANAGE = "tokens:manage"
    """Tokens and roles: who may do what."""


ALL: Final = frozenset(Permission)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. tenant None: belongs to none; roles are for show, permissions decide."""

    subject: str
    tenant: str | None = None
    permissions: frozenset[Permission] = frozenset()
    roles: tuple[str, ...] = ()
    kind: PrincipalKind = "user"
    display: str | None = None

    def may(self, permission: Permission) -> bool:
        """Whether the permission is held."""
        return permission in self.permissions

    @property
    def name(self) -> str:
        """What to call them on a screen."""
        return self.display or self.subject


SYSTEM: Final = Principal("system", permissions=ALL, kind="system")
"""The library itself: code that holds the database's password may do everything."""


def permissions_of(names: Iterable[str]) -> frozenset[Permission]:
    """The permissions of those names; InvalidOption says which ones there are."""
    found = set()
    for name in names:
        try:
            found.add(Permission(name))
        except ValueError:
            message = f"There is no permission {str(name)!r}; there are {', '.join(Permission)}."
            raise InvalidOption(message) from None
    return frozenset(found)
