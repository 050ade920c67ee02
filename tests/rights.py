"""Rights: a model of what a principal may do, which knows nothing of guards and queries.

A permission reaches a job if one of its scopes names the job's kind and lane, and if the job is the principal's own or
one that jobs:read_all reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rowlock import Principal
from rowlock.model.access import Permission, permissions_of


class Reached(Protocol):
    """A job as the model sees it."""

    @property
    def kind(self) -> str: ...
    @property
    def tenant(self) -> str | None: ...
    @property
    def submitted_by(self) -> str | None: ...


@dataclass(frozen=True)
class Rights:
    """What a principal may do, by the texts of its permissions."""

    subject: str
    tenant: str | None
    held: frozenset[str]

    @property
    def principal(self) -> Principal:
        return Principal(self.subject, self.tenant, permissions_of(self.held))

    def has(self, permission: str) -> bool:
        return any(text.partition("@")[0] == permission for text in self.held)

    def names(self, permission: str, kind: str, lane: str) -> bool:
        """Whether a scope of the permission names this kind and this lane."""
        for text in self.held:
            name, _, scope = text.partition("@")
            said = dict(part.split("=") for part in scope.split(",") if part)
            if name == permission and all(
                meant == wanted or (wanted.endswith("*") and meant.startswith(wanted[:-1]))
                for key, wanted in said.items()
                for meant in [{"kind": kind, "lane": lane}[key]]
            ):
                return True
        return False

    def reaches(self, permission: str, job: Reached, lane: str) -> bool:
        own = job.tenant == self.tenant if self.tenant else job.tenant is None and job.submitted_by == self.subject
        return self.names(permission, job.kind, lane) and (own or self.names(Permission.READ_ALL, job.kind, lane))

    def outcome(self, permission: str, job: Reached | None, lane: str) -> str:
        """What becomes of an order: done (or the wrong state), forbidden or missing."""
        if not self.has(permission):
            return "forbidden"
        if job is None:
            return "missing"
        if self.reaches(permission, job, lane):
            return "done"
        return "forbidden" if self.reaches(Permission.READ, job, lane) else "missing"
