"""What the application needs of other services; the clients and their stubs have these methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class StorySoFar:
    """What the writer of the next entry knows. decisions: the choice that was taken after each earlier entry."""

    title: str
    language: str
    texts: tuple[str, ...]
    decisions: tuple[str, ...]

    @property
    def number(self) -> int:
        """Of the entry to be written: 1 for the first."""
        return len(self.texts) + 1


@dataclass(frozen=True)
class Written:
    """An entry, and the ways to go on after it."""

    text: str
    choices: tuple[str, ...]


class Writer(Protocol):
    """A language model."""

    async def continue_story(self, story: StorySoFar) -> Written:
        """Write the next entry."""

    async def digest(self, day: str) -> str:
        """Tell the news of a day in simple words."""


class Translator(Protocol):
    """A translation service."""

    async def can_translate_to(self, language: str) -> bool:
        """Whether it knows a language."""

    async def translate(self, text: str, language: str) -> str:
        """The text in that language."""


class Narrator(Protocol):
    """Text to speech."""

    async def read_aloud(self, text: str, language: str) -> bytes:
        """The text as sound, a WAV file."""


class Linguist(Protocol):
    """Analysis of language in this process; it computes, and blocks meanwhile."""

    def words(self, text: str, language: str) -> list[str]:
        """The words worth learning."""


class Storage(Protocol):
    """Files beside the database."""

    async def create(self) -> None:
        """Make what has to be there before the first file."""

    async def put(self, key: str, content: bytes) -> None:
        """Keep a file; an older one of that key is replaced."""

    async def get(self, key: str) -> bytes:
        """A file that was kept."""


@dataclass(frozen=True)
class Services:
    """All of them."""

    writer: Writer
    translator: Translator
    narrator: Narrator
    linguist: Linguist
    storage: Storage
