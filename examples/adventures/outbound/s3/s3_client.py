"""Files in a bucket that speaks the S3 protocol, such as the `storage` container of the compose files."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from examples.adventures.outbound.http import ServiceFailed, call

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

_REGION: Final = "us-east-1"


@dataclass(frozen=True)
class S3Client:
    """A bucket, addressed by path."""

    http: httpx.AsyncClient
    endpoint: str
    bucket: str
    access_key: str
    secret_key: str

    async def create(self) -> None:
        """Make the bucket, unless it is there."""
        try:
            await self._send("PUT", "")
        except ServiceFailed as error:
            if " 409:" not in str(error):
                raise

    async def put(self, key: str, content: bytes) -> None:
        """Upload a file."""
        await self._send("PUT", key, content)

    async def get(self, key: str) -> bytes:
        """Download a file."""
        return await self._send("GET", key)

    async def _send(self, method: str, key: str, content: bytes = b"") -> bytes:
        url = f"{self.endpoint}/{self.bucket}" + (f"/{quote(key)}" if key else "")
        keys = (self.access_key, self.secret_key)
        headers = signed_headers(method, url, content, keys=keys, now=datetime.now(UTC))
        return (await call(self.http, "s3", method, url, headers=headers, content=content)).content


def signed_headers(
    method: str,
    url: str,
    content: bytes,
    *,
    keys: tuple[str, str],
    now: datetime,
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Headers with a signature of the request, version 4.

    keys: the access key and the secret one. more: further headers to sign, with lower-case names.
    """
    at, parts = now.strftime("%Y%m%dT%H%M%SZ"), urlsplit(url)
    digest = hashlib.sha256(content).hexdigest()
    signed = {"host": parts.netloc, "x-amz-content-sha256": digest, "x-amz-date": at, **(more or {})}
    names = ";".join(sorted(signed))
    lines = [f"{name}:{signed[name]}" for name in sorted(signed)]
    request = "\n".join([method, parts.path, parts.query, *lines, "", names, digest])
    scope = f"{at[:8]}/{_REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", at, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{keys[1]}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    credential = f"AWS4-HMAC-SHA256 Credential={keys[0]}/{scope},SignedHeaders={names},Signature={signature}"
    return {**signed, "Authorization": credential}
