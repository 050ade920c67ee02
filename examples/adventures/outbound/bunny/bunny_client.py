"""Files in a storage zone of Bunny, read through its CDN with signed addresses."""

from __future__ import annotations

import base64
import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from examples.adventures.outbound.http import call

if TYPE_CHECKING:
    import httpx

_LIFE: Final = 300
"""Seconds for which a signed address opens its file."""


@dataclass(frozen=True)
class BunnyClient:
    """A zone, and the CDN in front of it."""

    http: httpx.AsyncClient
    endpoint: str
    zone: str
    api_key: str
    cdn_base_url: str
    token_auth_key: str

    async def create(self) -> None:
        """Nothing: a zone is made in Bunny's panel."""

    async def put(self, key: str, content: bytes) -> None:
        """Upload a file."""
        url = f"{self.endpoint}/{self.zone}/{key}"
        await call(self.http, "bunny", "PUT", url, headers={"AccessKey": self.api_key}, content=content)

    async def get(self, key: str) -> bytes:
        """Download a file from the CDN."""
        return (await call(self.http, "bunny", "GET", self.signed_url(key, int(time.time()) + _LIFE))).content

    def signed_url(self, key: str, expires: int) -> str:
        """The address of a file, until a moment in seconds since 1970."""
        digest = hashlib.sha256(f"{self.token_auth_key}/{key}{expires}".encode()).digest()
        token = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        return f"{self.cdn_base_url}/{key}?token={token}&expires={expires}"
