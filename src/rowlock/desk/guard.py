"""The guard at the desk: every method asks it first whether whoever asks may."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from rowlock.errors import Forbidden, ReadOnly
from rowlock.model.access import SYSTEM, Permission, Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

P = ParamSpec("P")
R = TypeVar("R")
NEEDS: Final = "needs"
"""The attribute under which a guarded method carries its Needs."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Knows who asks, and through which request."""

    principal: Principal
    read_only: bool = False
    request_id: str | None = None
    address: str | None = None

    def demand(self, permission: Permission, *, unsafe: bool = False) -> None:
        """Forbidden unless the principal holds the permission; ReadOnly for a change where none may be made."""
        if not self.principal.may(permission):
            message = (
                f"{self.principal.name} lacks the permission {permission}. "
                "Ask whoever manages the roles, or use another token."
            )
            raise Forbidden(message, permission)
        if unsafe and self.read_only:
            message = "This is a read-only desk: nothing was changed. Ask where changes are allowed."
            raise ReadOnly(message, permission)

    @property
    def visibility(self) -> dict[str, object]:
        """The parameters of the SQL fragment `visible`: which jobs this principal sees."""
        who = self.principal
        return {"sees_all": who.may(Permission.READ_ALL), "tenant": who.tenant, "subject": who.subject}

    @property
    def sees_all(self) -> bool:
        """Whether every job is seen."""
        return self.principal.may(Permission.READ_ALL)

    @property
    def reveals(self) -> bool:
        """Whether secrets are shown. Never to the library itself: what it reads goes to terminals and logs."""
        return self.principal.kind != "system" and self.principal.may(Permission.READ_ARGS)

    def name_of(self, by: str | None) -> str | None:
        """Who gives an order: the principal; somebody else only for those who may act for others."""
        who = self.principal
        if by is not None and by != who.subject:
            self.demand(Permission.SUBMIT_AS)
            return by
        return by if who.kind == "system" else who.subject

    def signed(self, verb: str, by: str | None, note: str | None) -> dict[str, object]:
        """The parameters of an order: what, by whom, why, and what the audit keeps of the one who asks."""
        return {"verb": verb, "by_whom": self.name_of(by), "note": note, "asker": self.asker(by)}

    def asker(self, by: str | None = None) -> str:
        """What the audit keeps of the one who asks, as JSON."""
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
"""For the library itself."""


class Guarded(Protocol):
    """A class of the desk."""

    _guard: Guard


S = TypeVar("S", bound=Guarded)


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """Decorates a method of the desk: it runs only for those who hold the permission."""

    permission: Permission
    unsafe: bool

    def __call__(
        self, method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
        """The method behind its check."""

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
