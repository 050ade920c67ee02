"""Settings from the environment, under the names that the compose files use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Settings:
    """What api and worker are told by their environment. The same image runs both."""

    database_url: str
    jwt_secret: str
    stub_generation: bool
    """Stories, translations and speech are made up in this process, without a service."""
    anthropic_api_key: str
    anthropic_url: str
    deepl_api_key: str
    deepl_url: str
    gemini_api_key: str
    gemini_url: str
    storage_provider: str
    """s3, bunny, or memory: sound that is gone with its process."""
    storage_endpoint_url: str
    storage_access_key: str
    storage_secret_key: str
    storage_bucket: str
    bunny_zone: str
    bunny_api_key: str
    bunny_cdn_base_url: str
    bunny_token_auth_key: str
    bunny_storage_endpoint: str

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """Read every setting; an empty variable counts as absent, as compose passes unset ones on as empty."""

        def get(name: str, default: str = "") -> str:
            return environ.get(name) or default

        return cls(
            database_url=get("DATABASE_URL", "postgresql+asyncpg://langlearn@localhost/langlearn"),
            jwt_secret=get("JWT_SECRET"),
            stub_generation=get("STUB_GENERATION").lower() == "true",
            anthropic_api_key=get("ANTHROPIC_API_KEY"),
            anthropic_url=get("ANTHROPIC_URL", "https://api.anthropic.com"),
            deepl_api_key=get("DEEPL_API_KEY"),
            deepl_url=get("DEEPL_URL", "https://api-free.deepl.com"),
            gemini_api_key=get("GEMINI_API_KEY"),
            gemini_url=get("GEMINI_URL", "https://generativelanguage.googleapis.com"),
            storage_provider=get("STORAGE_PROVIDER", "s3"),
            storage_endpoint_url=get("STORAGE_ENDPOINT_URL", "http://localhost:9000"),
            storage_access_key=get("STORAGE_ACCESS_KEY"),
            storage_secret_key=get("STORAGE_SECRET_KEY"),
            storage_bucket=get("STORAGE_BUCKET", "langlearn"),
            bunny_zone=get("BUNNY_ZONE"),
            bunny_api_key=get("BUNNY_API_KEY"),
            bunny_cdn_base_url=get("BUNNY_CDN_BASE_URL"),
            bunny_token_auth_key=get("BUNNY_TOKEN_AUTH_KEY"),
            bunny_storage_endpoint=get("BUNNY_STORAGE_ENDPOINT", "https://storage.bunnycdn.com"),
        )


settings: Final = Settings.from_environment(os.environ)
