"""Stories and news from Anthropic's Messages API."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from examples.adventures.outbound.http import ServiceFailed, call, field
from examples.adventures.outbound.ports import StorySoFar, Written

if TYPE_CHECKING:
    import httpx

_VERSION: Final = "2023-06-01"
_MODEL: Final = "claude-sonnet-4-5"


@dataclass(frozen=True)
class AnthropicClient:
    """The service at a URL."""

    http: httpx.AsyncClient
    url: str
    api_key: str

    async def continue_story(self, story: StorySoFar) -> Written:
        """Ask for the next entry, as JSON."""
        told = "\n".join(
            f"{text}\nThe reader chose: {decision}"
            for text, decision in zip(story.texts, story.decisions, strict=False)
        )
        answer = await self._ask(
            f"Write part {story.number} of the interactive story {story.title!r} in the language {story.language}, in "
            f"three short sentences for learners. So far:\n{told}\n"
            'Answer with JSON alone: {"text": "…", "choices": ["…", "…"]}'
        )
        try:
            found = json.loads(answer)
            return Written(str(found["text"]), tuple(str(each) for each in found["choices"]))
        except (ValueError, LookupError, TypeError) as error:
            message = f"The model answered something else than an entry: {answer[:200]}"
            raise ServiceFailed(message) from error

    async def digest(self, day: str) -> str:
        """Ask for the news of a day."""
        return await self._ask(f"Tell the news of {day} in five sentences with simple words.")

    async def _ask(self, prompt: str) -> str:
        body = {"model": _MODEL, "max_tokens": 1024, "messages": [{"role": "user", "content": prompt}]}
        headers = {"x-api-key": self.api_key, "anthropic-version": _VERSION}
        answer = await call(self.http, "anthropic", "POST", f"{self.url}/v1/messages", headers=headers, json=body)
        return str(field(answer, "content", 0, "text"))
