"""WAV files of samples as Gemini sends them: 24,000 a second, 16 bits, one channel."""

from __future__ import annotations

import io
import math
import struct
import wave
from typing import Final

RATE: Final = 24_000


def wav_of(samples: bytes) -> bytes:
    """The samples as a file that every browser plays."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.writeframes(samples)
    return file.getvalue()


def hum(text: str) -> bytes:
    """Samples of one soft tone per word: what stubs and stand-ins say."""
    tone = RATE // 8
    pitches = [220 + 20 * (len(word) % 12) for word in text.split()]
    return b"".join(
        struct.pack("<h", round(6000 * math.sin(2 * math.pi * pitch * at / RATE) * (1 - at / tone)))
        for pitch in pitches
        for at in range(tone)
    )
