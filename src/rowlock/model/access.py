"""Principals, permissions, roles, tokens, and entries of the audit log."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

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
EMBED_LONGEST: Final = timedelta(days=1)
"""The longest life of an embed token; what was revoked is remembered for as long."""
EMBED_KEY_LIFETIME: Final = timedelta(days=30)
"""A key signs embed tokens for this long; then a new one is made."""
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
    WEBHOOKS_MANAGE = "webhooks:manage"
    """The endpoints of other systems that get webhooks."""


ALL: Final = frozenset(Permission)
SCOPABLE: Final = {
    Permission.READ: ("kind", "lane"),
    Permission.READ_ALL: ("kind", "lane"),
    Permission.SUBMIT: ("kind", "lane"),
    Permission.APPROVE: ("kind", "lane"),
    Permission.CANCEL: ("kind", "lane"),
    Permission.RETRY: ("kind", "lane"),
    Permission.EDIT: ("kind", "lane"),
    Permission.DELETE: ("kind", "lane"),
    Permission.WORKERS_MANAGE: ("lane",),
    Permission.SCHEDULES_VIEW: ("kind",),
    Permission.SCHEDULES_MANAGE: ("kind",),
}
"""Permissions that can be limited to some jobs, and by what."""
_ANY: Final = "*"


@dataclass(frozen=True, slots=True, order=True)
class PermissionScope:
    """The jobs that a permission reaches, by kind and lane: each a name, or its beginning and a *."""

    kind: str = _ANY
    lane: str = _ANY

    def overlap(self, other: PermissionScope) -> PermissionScope | None:
        """The jobs that both reach; None: there are none."""
        kind, lane = _narrower(self.kind, other.kind), _narrower(self.lane, other.lane)
        return None if kind is None or lane is None else PermissionScope(kind, lane)

    def covers(self, other: PermissionScope) -> bool:
        """Whether it reaches every job that the other one reaches."""
        return _covers(self.kind, other.kind) and _covers(self.lane, other.lane)

    @property
    def is_everything(self) -> bool:
        """Whether it reaches every job."""
        return self == EVERYTHING

    @property
    def text(self) -> str:
        """As it is written behind the @ of a permission."""
        patterns = {"kind": self.kind, "lane": self.lane}
        return ",".join(f"{name}={pattern}" for name, pattern in patterns.items() if pattern != _ANY)


EVERYTHING: Final = PermissionScope()
"""The scope of a permission without one."""


def _covers(pattern: str, other: str) -> bool:
    return pattern == other or (pattern.endswith(_ANY) and other.startswith(pattern[:-1]))


def _narrower(one: str, other: str) -> str | None:
    return other if _covers(one, other) else one if _covers(other, one) else None


class ScopedPermission(str):
    """A permission for some jobs only, as it is written and stored: "jobs:cancel@kind=report.*,lane=bulk"."""

    __slots__ = ("permission", "scope")
    permission: Permission
    scope: PermissionScope

    def __new__(cls, text: str) -> Self:
        """Read it; InvalidOption says what can be scoped."""
        name, _, written = text.partition("@")
        permission, names = next(((one, by) for one, by in SCOPABLE.items() if one == name), (None, ()))
        if permission is None:
            raise InvalidOption(_unscopable(text, name))
        parts = [part.partition("=") for part in written.split(",")]
        patterns = {key: pattern for key, _, pattern in parts}
        if len(patterns) < len(parts) or not patterns.keys() <= set(names):
            message = f"{text!r}: behind {name}@ stand {' and '.join(f'{key}=…' for key in names)}, each once at most."
            raise InvalidOption(message)
        for key, pattern in patterns.items():
            if not pattern or pattern == _ANY or _ANY in pattern[:-1] or not pattern.isprintable():
                message = f"{text!r}: {key} is a name, or its beginning and a *, as in {key}=report.*; got {pattern!r}."
                raise InvalidOption(message)
        scope = PermissionScope(**patterns)
        made = super().__new__(cls, f"{permission}@{scope.text}")
        made.permission, made.scope = permission, scope
        return made


HeldPermission: TypeAlias = Permission | ScopedPermission
"""A permission, or one for some jobs only."""


def _unscopable(text: str, name: str) -> str:
    able = "; ".join(
        f"{', '.join(one for one, by in SCOPABLE.items() if by == names)} by {' and '.join(names)}"
        for names in dict.fromkeys(SCOPABLE.values())
    )
    return f"{text!r} cannot be: {name} holds for everything. Scopes can be given to {able}."


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, token or system that calls. tenant None: of no tenant; permissions decide, roles only say where from.

    token: the id of the API token that was presented, directly or through a session.
    """

    subject: str
    tenant: str | None = None
    permissions: frozenset[HeldPermission] = frozenset()
    roles: tuple[str, ...] = ()
    kind: PrincipalKind = "user"
    display: str | None = None
    token: str | None = None
    is_anonymous: bool = False
    """Whether it stands for every caller of a server without authentication, so that no job is its own."""

    def may(self, permission: Permission) -> bool:
        """Whether the permission is held for everything, without a scope."""
        return permission in self.permissions

    def scopes(self, permission: Permission) -> tuple[PermissionScope, ...]:
        """What the permission is held for; empty: it is not held at all."""
        if self.may(permission):
            return (EVERYTHING,)
        held = (one for one in self.permissions if isinstance(one, ScopedPermission))
        return tuple(sorted(one.scope for one in held if one.permission is permission))

    def covers(self, held: HeldPermission) -> bool:
        """Whether the principal itself holds as much as this permission gives."""
        if isinstance(held, ScopedPermission):
            return any(scope.covers(held.scope) for scope in self.scopes(held.permission))
        return self.may(held)

    @property
    def is_known(self) -> bool:
        """Whether a certain person or program calls: not the library, and not any caller of this machine."""
        return self.kind != "system" and not self.is_anonymous

    @property
    def name(self) -> str:
        """The name to display."""
        return self.display or self.subject


SYSTEM: Final = Principal("system", permissions=ALL, kind="system")
"""The library itself: code that has the database's password may do everything."""


def known_permissions(names: Iterable[str]) -> frozenset[HeldPermission]:
    """The permissions among these names; names and scopes stored by newer code are left out."""
    found: set[HeldPermission] = set()
    for name in names:
        with contextlib.suppress(ValueError, InvalidOption):
            found.add(_permission(name))
    return frozenset(found)


def permissions_of(names: Iterable[str]) -> frozenset[HeldPermission]:
    """The permissions of those names; InvalidOption says which ones there are, and which can be scoped."""
    found: set[HeldPermission] = set()
    for name in names:
        try:
            found.add(_permission(name))
        except ValueError:
            message = f"There is no permission {str(name)!r}; there are {', '.join(Permission)}."
            raise InvalidOption(message) from None
    return frozenset(found)


def _permission(name: str) -> HeldPermission:
    """ValueError: there is none of that name; InvalidOption: it has a scope that it cannot have."""
    plain, at, _ = name.partition("@")
    permission = Permission(plain)
    return ScopedPermission(name) if at else permission


@dataclass(frozen=True, slots=True)
class Role:
    """A name for permissions."""

    name: str
    permissions: frozenset[HeldPermission]
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
    permissions: frozenset[HeldPermission]
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
    more: bool = False
    """Whether the check stopped at its limit, and the chain may go on."""


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
