"""Which clients a process uses: the real ones, or with STUB_GENERATION their stubs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from examples.adventures.outbound.anthropic.anthropic_client import AnthropicClient
from examples.adventures.outbound.anthropic.stub_anthropic_client import StubAnthropicClient
from examples.adventures.outbound.bunny.bunny_client import BunnyClient
from examples.adventures.outbound.bunny.stub_bunny_client import StubBunnyClient
from examples.adventures.outbound.deepl.deepl_client import DeepLClient
from examples.adventures.outbound.deepl.stub_deepl_client import StubDeepLClient
from examples.adventures.outbound.gemini.gemini_client import GeminiClient
from examples.adventures.outbound.gemini.stub_gemini_client import StubGeminiClient
from examples.adventures.outbound.nlp.nlp_client import NlpClient
from examples.adventures.outbound.nlp.stub_nlp_client import StubNlpClient
from examples.adventures.outbound.ports import Services, Storage
from examples.adventures.outbound.s3.s3_client import S3Client
from examples.adventures.settings import settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def open_services() -> AsyncIterator[Services]:
    """The services of a process, over one pool of HTTP connections. A provider of worker and api alike."""
    async with httpx.AsyncClient(timeout=60) as http:
        storage = storage_over(http)
        if settings.stub_generation:
            yield Services(StubAnthropicClient(), StubDeepLClient(), StubGeminiClient(), StubNlpClient(), storage)
        else:
            yield Services(
                AnthropicClient(http, settings.anthropic_url, settings.anthropic_api_key),
                DeepLClient(http, settings.deepl_url, settings.deepl_api_key),
                GeminiClient(http, settings.gemini_url, settings.gemini_api_key),
                NlpClient(),
                storage,
            )


def storage_over(http: httpx.AsyncClient) -> Storage:
    """The storage that STORAGE_PROVIDER names."""
    match settings.storage_provider:
        case "s3":
            return S3Client(
                http,
                settings.storage_endpoint_url,
                settings.storage_bucket,
                settings.storage_access_key,
                settings.storage_secret_key,
            )
        case "bunny":
            return BunnyClient(
                http,
                settings.bunny_storage_endpoint,
                settings.bunny_zone,
                settings.bunny_api_key,
                settings.bunny_cdn_base_url,
                settings.bunny_token_auth_key,
            )
        case "memory":
            return StubBunnyClient()
        case other:
            message = f"STORAGE_PROVIDER is s3, bunny or memory; got {other!r}."
            raise ValueError(message)
