"""ClaimsMapping: who a token of an identity provider names, by its claims."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class MissingClaim(Exception):
    """A token lacks a claim that names its subject or tenant."""


@dataclass(frozen=True, slots=True)
class NamedPerson:
    """A person as an identity provider names them. roles: of Rowlock."""

    subject: str
    tenant: str | None
    display: str | None
    roles: list[str]


@dataclass(frozen=True, slots=True)
class ClaimsMapping:
    """Which claims count. A claim may be a path: realm_access.roles.

    roles: maps role names of the provider to ours; its other roles are ignored. tenant_claim None: nobody has a tenant.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    roles_claim: str = "roles"
    tenant_claim: str | None = None
    subject_claim: str = "sub"
    name_claim: str = "name"

    def person_of(self, claims: Mapping[str, Any]) -> NamedPerson:
        """The person; MissingClaim: there is no subject, or no tenant where one is needed."""
        subject, name, roles = (
            _claim(claims, each) for each in (self.subject_claim, self.name_claim, self.roles_claim)
        )
        if not isinstance(subject, str) or not subject:
            raise MissingClaim(self.subject_claim)
        tenant = None if self.tenant_claim is None else _claim(claims, self.tenant_claim)
        if self.tenant_claim is not None and (not isinstance(tenant, str) or not tenant):
            # Without the claim, the caller would count as one without a tenant.
            raise MissingClaim(self.tenant_claim)
        names = [roles] if isinstance(roles, str) else roles if isinstance(roles, list) else []
        return NamedPerson(
            subject,
            tenant if isinstance(tenant, str) else None,
            name if isinstance(name, str) else None,
            [self.roles[each] for each in names if isinstance(each, str) and each in self.roles],
        )


def _claim(claims: Mapping[str, Any], path: str) -> object:
    # The name of a claim may contain dots, as names with a URL do.
    if path in claims:
        return claims[path]
    value: object = claims
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value
