"""Object store, CDN and GitHub: what the application asks of them, and clients over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TRIES: Final = 4
_PAUSE: Final = 0.05


class ServiceFailed(OSError):
    """A service that did not answer, or not well, after three retries."""


@dataclass(frozen=True)
class StoredObject:
    """An object as the store lists it."""

    key: str
    content_hash: str
    content_type: str
    size: int
    stored_at: datetime


class ObjectStore(Protocol):
    """Where builds, copies and dashboards lie."""

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        """Objects whose keys begin so."""

    async def get(self, key: str) -> str:
        """The content of an object."""

    async def put(self, key: str, content: str) -> None:
        """Write an object, whole."""

    async def copy(self, source: str, target: str) -> None:
        """Copy an object within the store."""

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects in one request."""


class Cdn(Protocol):
    """The CDN: it maps an edition's path to a prefix of the store, and caches what it served."""

    async def point(self, path: str, prefix: str) -> None:
        """Write the key-value mapping of a path."""

    async def purge(self, path: str) -> None:
        """Forget what was cached below a path."""


class GitHub(Protocol):
    """Repositories: their refs, and the templates in one."""

    async def refs(self, repository: str) -> Sequence[str]:
        """Branches and tags of a repository."""

    async def templates(self, repository: str) -> Mapping[str, str]:
        """The template files of a repository."""


@dataclass(frozen=True)
class Services:
    """What the factory hands to the services of the application."""

    store: ObjectStore
    cdn: Cdn
    github: GitHub


@dataclass(frozen=True)
class _Endpoint:
    """One service over HTTP. A lost connection and an error of the server are tried again three times."""

    client: httpx.AsyncClient
    name: str

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:  # noqa: ANN401 - httpx's
        said = ""
        for number in range(_TRIES):
            await asyncio.sleep(number * _PAUSE)
            try:
                answer = await self.client.request(method, path, **options)
            except httpx.TransportError as error:
                said = type(error).__name__
                continue
            if answer.is_success:
                return answer
            said = str(answer.status_code)
            if not answer.is_server_error:
                break
        message = f"{self.name} {said} after {_TRIES - 1} retries"
        raise ServiceFailed(message)


class HttpObjectStore(_Endpoint):
    """An ObjectStore over HTTP."""

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        """Objects whose keys begin so, in the order of their keys."""
        found = (await self.ask("GET", "/objects", params={"prefix": prefix})).json()
        return [StoredObject(**each | {"stored_at": datetime.fromisoformat(each["stored_at"])}) for each in found]

    async def get(self, key: str) -> str:
        """The content of an object."""
        return (await self.ask("GET", f"/objects/{quote(key)}")).text

    async def put(self, key: str, content: str) -> None:
        """Write an object, whole."""
        await self.ask("PUT", f"/objects/{quote(key)}", content=content.encode())

    async def copy(self, source: str, target: str) -> None:
        """Copy an object within the store."""
        await self.ask("POST", "/copy", json={"source": source, "target": target})

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects in one request; those that are gone do not matter."""
        if keys:
            await self.ask("POST", "/delete", json=list(keys))


class HttpCdn(_Endpoint):
    """A Cdn over HTTP."""

    async def point(self, path: str, prefix: str) -> None:
        """Write the key-value mapping of a path."""
        await self.ask("PUT", f"/kv/{quote(path)}", content=prefix.encode())

    async def purge(self, path: str) -> None:
        """Forget what was cached below a path."""
        await self.ask("POST", f"/purge/{quote(path)}")


class HttpGitHub(_Endpoint):
    """GitHub over HTTP."""

    async def refs(self, repository: str) -> Sequence[str]:
        """Branches and tags of a repository."""
        found: list[str] = (await self.ask("GET", f"/github/{quote(repository)}/refs")).json()
        return found

    async def templates(self, repository: str) -> Mapping[str, str]:
        """The template files of a repository."""
        found: dict[str, str] = (await self.ask("GET", f"/github/{quote(repository)}/templates")).json()
        return found


def services_at(url: str) -> Services:
    """Clients of the three services behind one address, as the stand-in has them."""
    client = httpx.AsyncClient(base_url=url, timeout=60, trust_env=False)
    return Services(HttpObjectStore(client, "R2"), HttpCdn(client, "KV"), HttpGitHub(client, "GitHub"))
