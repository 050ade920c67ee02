"""Stories without a service, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.adventures.outbound.ports import Written
from examples.adventures.sample_story import scene

if TYPE_CHECKING:
    from examples.adventures.outbound.ports import StorySoFar


class StubAnthropicClient:
    """Tells the sample story."""

    async def continue_story(self, story: StorySoFar) -> Written:
        """The scene of that number."""
        told = scene(story.number)
        return Written(told.text, told.choices)

    async def digest(self, day: str) -> str:
        """The same news every day."""
        return f"{day}: nothing happened, and everybody slept well."
