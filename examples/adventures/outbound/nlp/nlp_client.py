"""Words worth learning. Plain counting stands where the design has spaCy, whose models are large."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"[^\W\d_]{4,}")


class NlpClient:
    """Computes in this process."""

    def words(self, text: str, language: str) -> list[str]:  # noqa: ARG002 - spaCy would choose its model by it
        """The longer words, each once, in alphabetical order."""
        return sorted({word.lower() for word in _WORD.findall(text)})
