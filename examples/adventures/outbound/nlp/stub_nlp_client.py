"""Words without an analysis."""

from __future__ import annotations


class StubNlpClient:
    """Takes the first words of a text for those worth learning."""

    def words(self, text: str, language: str) -> list[str]:  # noqa: ARG002 - the same in every language
        """The first three words."""
        return [word.strip(".,:«»").lower() for word in text.split()[:3]]
