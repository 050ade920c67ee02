"""The application's own users, and the principals that they are for Rowlock."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import sys
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from examples.knowledge_graph.tables import Person
from examples.knowledge_graph.tasks import new_session, tasks

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from rowlock import Principal

COOKIE: Final = "knowledge_graph"
_SAFE: Final = ("GET", "HEAD", "OPTIONS")


def add_person(name: str, *roles: str, key: str | None = None) -> str:
    """Store a person, or give a known one other roles and another key. The key is shown once."""
    key = key or secrets.token_urlsafe(24)
    with new_session() as session:
        session.merge(Person(name=name, key_hash=hash_of(key), roles=list(roles)))
        session.commit()
    return key


def hash_of(key: str) -> str:
    """What is stored of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


async def principal_of(connection: HTTPConnection) -> Principal | None:
    """Who asks: by the key in the header of a program, or in the cookie of a browser."""
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        key = "" if _is_foreign(connection) else connection.cookies.get(COOKIE, "")
    person = await asyncio.to_thread(_find, key) if key else None
    return None if person is None else await tasks.identity.of(person.name, roles=person.roles)


def _find(key: str) -> Person | None:
    with new_session() as session:
        return session.scalar(select(Person).where(Person.key_hash == hash_of(key)))


def _is_foreign(connection: HTTPConnection) -> bool:
    """Whether a page of another site sends a change with a visitor's cookie."""
    site = connection.headers.get("sec-fetch-site", "same-origin")
    return connection.scope.get("method") not in _SAFE and site not in ("same-origin", "none")


def main() -> None:
    """`KEY=… python -m examples.knowledge_graph.people NAME ROLE …` stores a person."""
    name, *roles = sys.argv[1:]
    add_person(name, *roles, key=os.environ["KEY"])


if __name__ == "__main__":
    main()
