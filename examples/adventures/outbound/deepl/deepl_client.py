"""Translations from DeepL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.adventures.outbound.http import call, field

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True)
class DeepLClient:
    """The service at a URL."""

    http: httpx.AsyncClient
    url: str
    api_key: str

    async def can_translate_to(self, language: str) -> bool:
        """Ask for the languages that it knows: EN-GB is one for en."""
        answer = await call(self.http, "deepl", "GET", f"{self.url}/v2/languages?type=target", headers=self._headers)
        known = {str(each["language"]).partition("-")[0].lower() for each in field(answer)}
        return language.lower() in known

    async def translate(self, text: str, language: str) -> str:
        """Ask for a translation."""
        body = {"text": [text], "target_lang": language.upper()}
        answer = await call(self.http, "deepl", "POST", f"{self.url}/v2/translate", headers=self._headers, json=body)
        return str(field(answer, "translations", 0, "text"))

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"DeepL-Auth-Key {self.api_key}"}
