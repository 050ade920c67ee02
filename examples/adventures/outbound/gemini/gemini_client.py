"""Speech from Gemini."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from examples.adventures.outbound.gemini.wav import wav_of
from examples.adventures.outbound.http import call, field

if TYPE_CHECKING:
    import httpx

_MODEL: Final = "gemini-2.5-flash-preview-tts"


@dataclass(frozen=True)
class GeminiClient:
    """The service at a URL."""

    http: httpx.AsyncClient
    url: str
    api_key: str

    async def read_aloud(self, text: str, language: str) -> bytes:
        """Ask for sound; the service answers with samples, which become a WAV file."""
        body = {
            "contents": [{"parts": [{"text": f"Read this {language} text to a learner: {text}"}]}],
            "generationConfig": {"responseModalities": ["AUDIO"]},
        }
        answer = await call(
            self.http,
            "gemini",
            "POST",
            f"{self.url}/v1beta/models/{_MODEL}:generateContent",
            headers={"x-goog-api-key": self.api_key},
            json=body,
        )
        data = field(answer, "candidates", 0, "content", "parts", 0, "inlineData", "data")
        return wav_of(base64.b64decode(data))
