"""Guard: checks the principal's permission before each method of the desk runs."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from rowlock.errors import Forbidden, ReadOnly
from rowlock.model.access import EVERYTHING, SYSTEM, Permission, PermissionScope, Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from rowlock.model.job import Job

P = ParamSpec("P")
R = TypeVar("R")
NEEDS: Final = "needs"
"""The attribute of a guarded method that holds its RequiredPermission."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A principal, and the request it came with."""

    principal: Principal
    read_only: bool = False
    request_id: str | None = None
    address: str | None = None
    platform_wide: bool = False
    """Whether jobs of every tenant and submitter are within reach, as for holders of workers:manage."""
    within: tuple[Permission, ...] = (Permission.READ,)
    """The permissions whose scopes limit which jobs are within reach."""

    def demand(self, permission: Permission, *, unsafe: bool = False, scoped: bool = False) -> None:
        """Raise Forbidden if the principal lacks the permission, and ReadOnly for a change on a read-only desk.

        scoped: the permission for some jobs is enough, because the caller limits what it does to those.
        """
        held = self.principal.scopes(permission)
        if held and not scoped and not self.principal.may(permission):
            message = f"{self._limits(permission, held)}; this takes it without a scope."
            raise Forbidden(message, permission)
        if not held:
            message = (
                f"{self.principal.name} lacks the permission {permission}. "
                "Ask an administrator for a role that has it, or use another token."
            )
            raise Forbidden(message, permission)
        if unsafe and self.read_only:
            message = "This is a read-only desk: nothing was changed. Ask where changes are allowed."
            raise ReadOnly(message, permission)

    def demand_named(self, permission: Permission, *, kind: str | None = None, lane: str | None = None) -> None:
        """Raise Forbidden unless the permission is held for this kind, or this lane."""
        held = self.principal.scopes(permission)
        if not any(scope.covers(PermissionScope(kind or "", lane or "")) for scope in held):
            what = f"the kind {kind!r}" if lane is None else f"the lane {lane!r}"
            message = f"{self._limits(permission, held)}, not for {what}."
            raise Forbidden(message, permission)

    def refusal(self, what: str) -> Forbidden:
        """The error for a thing that the principal sees but that is outside the scope of its permission."""
        for permission in self.within:
            held = self.principal.scopes(permission)
            if held != (EVERYTHING,):
                return Forbidden(f"{self._limits(permission, held)}, not for {what}.", permission)
        return Forbidden(f"{self.principal.name} may not do this to {what}.", self.within[0])

    def _limits(self, permission: Permission, held: tuple[PermissionScope, ...]) -> str:
        scopes = " and ".join(scope.text for scope in held)
        return f"{self.principal.name} holds the permission {permission} for {scopes or 'nothing'} only"

    def acting_with(self, *permissions: Permission) -> Guard:
        """The same principal, with only those jobs within reach for which it holds all of these permissions."""
        return replace(self, within=permissions)

    @property
    def visibility(self) -> dict[str, object]:
        """The parameters of the SQL fragment `visible`: which jobs this principal sees."""
        who = self.principal
        return {
            "sees_all": self.sees_all,
            "tenant": who.tenant,
            "subject": who.subject,
            "granted": self.granted,
        }

    @property
    def granted(self) -> str | None:
        """The scopes of the permissions in `within`, as JSON for the SQL fragment `visible`; None: none has a scope.

        A permission that is not held at all limits nothing here: demand() refuses it. everyone: true for the scopes
        that reach jobs of other tenants and submitters.
        """
        who = self.principal
        asked = [held for permission in self.within if (held := who.scopes(permission))]
        everyone = (EVERYTHING,) if self.sees_all else who.scopes(Permission.READ_ALL)
        if all(held == (EVERYTHING,) for held in asked) and (self.sees_all or not everyone):
            return None
        reach: Sequence[PermissionScope] = (EVERYTHING,)
        for held in asked:
            reach = _overlaps(reach, held)
        scopes = [(scope, False) for scope in reach] + [(scope, True) for scope in _overlaps(reach, everyone)]
        return json.dumps(
            [{"kind": _like(one.kind), "lane": _like(one.lane), "everyone": whose} for one, whose in scopes]
        )

    @property
    def is_unlimited(self) -> bool:
        """Whether every job is within reach."""
        return self.sees_all and self.granted is None

    @property
    def sees_all(self) -> bool:
        """Whether the principal sees every job."""
        return self.platform_wide or self.principal.may(Permission.READ_ALL)

    @property
    def sees_others(self) -> bool:
        """Whether the principal sees jobs of other tenants or submitters, all or some of them."""
        return self.sees_all or bool(self.principal.scopes(Permission.READ_ALL))

    @property
    def reads_in_part(self) -> bool:
        """Whether the database alone can say which of the jobs within reach may be read: reading has a scope."""
        who = self.principal
        scopes = (*who.scopes(Permission.READ), *who.scopes(Permission.READ_ALL))
        return self.within != (Permission.READ,) and any(not scope.is_everything for scope in scopes)

    @property
    def for_the_platform(self) -> Guard:
        """The same principal for orders to any job; what it may not read of a job is left out of the answer."""
        return replace(self, platform_wide=True, within=(Permission.WORKERS_MANAGE,))

    @property
    def for_reading(self) -> Guard:
        """The same principal for reading jobs, whatever order it gives."""
        return replace(self, platform_wide=False, within=(Permission.READ,))

    def shown(self, job: Job) -> Job:
        """The job as this principal may see it: without jobs:read for it, only what identifies and places it."""
        who = self.principal
        if self.within == (Permission.READ,) and self.granted is not None and who.scopes(Permission.READ):
            return job  # found within the scopes of reading
        own = job.tenant == who.tenant if who.tenant else job.tenant is None and job.submitted_by == who.subject
        reads = who.may(Permission.READ) and (own or who.may(Permission.READ_ALL))
        return job if reads else job.without_content()

    @property
    def reveals(self) -> bool:
        """Whether secrets are shown. Not to the library itself, whose output goes to terminals and logs."""
        return self.principal.kind != "system" and self.principal.may(Permission.READ_ARGS)

    def name_of(self, by: str | None) -> str | None:
        """The author of an order: the principal, or `by` if the principal may act for others."""
        who = self.principal
        if by is not None and by != who.subject:
            self.demand(Permission.SUBMIT_AS)
            return by
        return by if who.kind == "system" else who.subject

    def signed(self, verb: str, by: str | None, note: str | None) -> dict[str, object]:
        """The parameters of an order: verb, author, note, and the principal for the audit."""
        return {"verb": verb, "by_whom": self.name_of(by), "note": note, "asker": self.asker(by)}

    def asker(self, by: str | None = None) -> str:
        """The principal and the request as the audit stores them, in JSON."""
        who = self.principal
        return json.dumps(
            {
                "subject": who.subject,
                "kind": who.kind,
                "acting_for": None if by in (None, who.subject) else by,
                "tenant": who.tenant,
                "request_id": self.request_id,
                "address": self.address,
            }
        )


TRUSTED: Final = Guard(SYSTEM)
"""The guard of the library itself, with every permission."""


class Guarded(Protocol):
    """A class of the desk."""

    _guard: Guard


S = TypeVar("S", bound=Guarded)


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """Decorates a method of the desk: it runs only if the principal holds the permission."""

    permission: Permission
    unsafe: bool
    scoped: bool = False

    def __call__(
        self, method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
        """The method with the check before it."""

        @functools.wraps(method)
        async def checked(desk: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            desk._guard.demand(self.permission, unsafe=self.unsafe, scoped=self.scoped)  # noqa: SLF001 - a method of that very class
            return await method(desk, *args, **kwargs)

        setattr(checked, NEEDS, self)
        return checked


def reads(permission: Permission, *, scoped: bool = False) -> RequiredPermission:
    """For a method that changes nothing. scoped: it limits itself to what the permission is held for."""
    return RequiredPermission(permission, unsafe=False, scoped=scoped)


def changes(permission: Permission, *, scoped: bool = False) -> RequiredPermission:
    """For a method that changes something: refused on a read-only desk too. scoped: as for reads()."""
    return RequiredPermission(permission, unsafe=True, scoped=scoped)


def _overlaps(some: Sequence[PermissionScope], others: Sequence[PermissionScope]) -> list[PermissionScope]:
    both = (one.overlap(other) for one in some for other in others)
    return sorted({scope for scope in both if scope is not None})


def _like(pattern: str) -> str:
    """The pattern as LIKE reads it."""
    begins = pattern.removesuffix("*")
    escaped = begins.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped + ("%" if begins != pattern else "")
