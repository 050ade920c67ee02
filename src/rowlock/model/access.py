"""Principals, permissions, roles, tokens, and entries of the audit log."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from rowlock.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

PrincipalKind = Literal["user", "token", "system"]
SESSION_IDLE: Final = timedelta(hours=8)
"""A session ends when it was not used for this long."""
SESSION_LONGEST: Final = timedelta(hours=24)
"""A session ends after this long, used or not."""
TOKEN_LIFETIME: Final = timedelta(days=90)
"""A token expires after this long unless its maker says otherwise."""
FAILURES_WITHIN: Final = timedelta(minutes=5)
"""The span over which failed logins are counted."""


class Permission(StrEnum):
    """What a principal may do; each method of the desk demands one of them."""

    READ = "jobs:read"
    READ_ALL = "jobs:read_all"
    """Without it a principal sees the jobs of its tenant only, or its own."""
    READ_ARGS = "jobs:read_args"
    """Without it, secret arguments and results are masked."""
    SUBMIT = "jobs:submit"
    SUBMIT_AS = "jobs:submit_as"
    """Submit or give orders in another subject's name, for any tenant."""
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
    """Tokens, roles and grants."""


ALL: Final = frozenset(Permission)


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, token or system that calls. tenant None: of no tenant; permissions decide, roles only say where from.

    token: the id of the API token that was presented, directly or through a session.
    """

    subject: str
    tenant: str | None = None
    permissions: frozenset[Permission] = frozenset()
    roles: tuple[str, ...] = ()
    kind: PrincipalKind = "user"
    display: str | None = None
    token: str | None = None

    def may(self, permission: Permission) -> bool:
        """Whether the permission is held."""
        return permission in self.permissions

    @property
    def name(self) -> str:
        """The name to display."""
        return self.display or self.subject


SYSTEM: Final = Principal("system", permissions=ALL, kind="system")
"""The library itself: code that has the database's password may do everything."""


def known_permissions(names: Iterable[str]) -> frozenset[Permission]:
    """The permissions among these names; names stored by newer code are left out."""
    known = set(Permission)
    return frozenset(Permission(name) for name in names if name in known)


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


@dataclass(frozen=True, slots=True)
class Role:
    """A name for permissions."""

    name: str
    permissions: frozenset[Permission]
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that was given to a subject."""

    subject: str
    role: str
    granted_at: datetime
    granted_by: str | None


@dataclass(frozen=True, slots=True)
class Token:
    """An API token as it may be shown: without its secret."""

    id: str
    name: str
    subject: str
    tenant: str | None
    permissions: frozenset[Permission]
    roles: tuple[str, ...]
    created_at: datetime
    created_by: str | None
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made. text: the token itself, shown once and stored nowhere."""

    token: Token
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SealedEntry:
    """An entry of the audit with its seal: hash is SHA-256 of `previous`, in hexadecimal, and `sealed_text`."""

    n: int
    previous: str
    hash: str
    sealed_text: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class BrokenSeal:
    """The first place where the chain of seals does not hold. n: 0 if the line was never sealed."""

    n: int
    entry_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class AuditCheck:
    """What a check of the chain found. first, last: the places that were checked; head: hash of the last seal."""

    lines: int
    first: int
    last: int
    head: str
    broken: BrokenSeal | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the audit: who changed what. target: job:<public id>, lane:<name>, token:<id>."""

    id: int
    at: datetime
    subject: str
    kind: str
    acting_for: str | None
    tenant: str | None
    action: str
    target: str
    before: Mapping[str, object] | None
    after: Mapping[str, object] | None
    note: str | None
    request_id: str | None
    address: str | None
