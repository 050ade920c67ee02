"""Guard: checks the principal's permission before each method of the desk runs."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from rowlock.errors import Forbidden, ReadOnly
from rowlock.model.access import SYSTEM, Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

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

    def demand(self, permission: Permission, *, unsafe: bool = False) -> None:
        """Raise Forbidden if the principal lacks the permission, and ReadOnly for a change on a read-only desk."""
        if not self.principal.may(permission):
            message = (
                f"{self.principal.name} lacks the permission {permission}. "
                "Ask an administrator for a role that has it, or use another token."
            )
            raise Forbidden(message, permission)
        if unsafe and self.read_only:
            message = "This is a read-only desk: nothing was changed. Ask where changes are allowed."
            raise ReadOnly(message, permission)

    @property
    def visibility(self) -> dict[str, object]:
        """The parameters of the SQL fragment `visible`: which jobs this principal sees."""
        who = self.principal
        return {"sees_all": self.sees_all, "tenant": who.tenant, "subject": who.subject}

    @property
    def sees_all(self) -> bool:
        """Whether the principal sees every job."""
        return self.platform_wide or self.principal.may(Permission.READ_ALL)

    @property
    def for_the_platform(self) -> Guard:
        """The same principal for orders to any job; what it may not read of a job is left out of the answer."""
        return replace(self, platform_wide=True)

    def shown(self, job: Job) -> Job:
        """The job as this principal may see it: without jobs:read for it, only what identifies and places it."""
        who = self.principal
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

    def __call__(
        self, method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
        """The method with the check before it."""

        @functools.wraps(method)
        async def checked(desk: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            desk._guard.demand(self.permission, unsafe=self.unsafe)  # noqa: SLF001 - a method of that very class
            return await method(desk, *args, **kwargs)

        setattr(checked, NEEDS, self)
        return checked


def reads(permission: Permission) -> RequiredPermission:
    """For a method that changes nothing."""
    return RequiredPermission(permission, unsafe=False)


def changes(permission: Permission) -> RequiredPermission:
    """For a method that changes something: refused on a read-only desk too."""
    return RequiredPermission(permission, unsafe=True)
