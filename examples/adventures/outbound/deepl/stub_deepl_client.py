"""Translations without a service."""

from __future__ import annotations

from typing import Final

from examples.adventures.sample_story import in_english

LANGUAGES: Final = frozenset({"de", "en", "es", "fr"})


class StubDeepLClient:
    """Knows the sample story in English."""

    async def can_translate_to(self, language: str) -> bool:
        """Whether it pretends to know the language."""
        return language.lower() in LANGUAGES

    async def translate(self, text: str, language: str) -> str:
        """The English text; for other languages with their name in front."""
        return in_english(text) if language == "en" else f"[{language}] {text}"
