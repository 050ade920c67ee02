"""Speech without a service."""

from __future__ import annotations

from examples.adventures.outbound.gemini.wav import hum, wav_of


class StubGeminiClient:
    """Hums."""

    async def read_aloud(self, text: str, language: str) -> bytes:  # noqa: ARG002 - the same in every language
        """A short tone, whatever the text is."""
        return wav_of(hum(text.split(maxsplit=1)[0]))
