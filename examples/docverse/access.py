"""Who asks: the single sign-on in front of the application names the person and the organisations it belongs to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, HTTPException, Request

from rowlock import Permission, Principal

MEMBER: Final = frozenset({Permission.READ, Permission.SUBMIT, Permission.CANCEL, Permission.RETRY})


@dataclass(frozen=True)
class Member:
    """A person, in one of its organisations."""

    name: str
    org: str

    @property
    def principal(self) -> Principal:
        """As Rowlock knows this person: it sees the jobs of its organisation alone."""
        return Principal(self.name, tenant=self.org, permissions=MEMBER)


async def member(org: str, request: Request) -> Member:
    """The person who asks for something of this organisation; what it does not belong to does not exist for it."""
    groups = request.headers.get("X-Auth-Request-Groups", os.environ.get("LOCAL_ORGANIZATIONS", ""))
    if org not in [group.strip() for group in groups.split(",")]:
        raise HTTPException(404, f"There is no organisation {org}.")
    return Member(request.headers.get("X-Auth-Request-User", "local"), org)


MemberOf = Annotated[Member, Depends(member)]
