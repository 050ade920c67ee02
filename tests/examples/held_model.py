"""A language model whose answers wait until a test lets them go."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from examples.ontology.language_model import ModelServer, Question, stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator


class HeldModel:
    """Answers as the stand-in does. A question whose task or text has a held word waits until the word is released."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[str] = set()
        self._waiting: list[Question] = []
        self.asked: list[Question] = []
        self.broken = False
        """Every question ends the connection without an answer."""

    def __call__(self, question: Question) -> list[str]:
        with self._changed:
            self.asked.append(question)
            self._waiting.append(question)
            self._changed.wait_for(lambda: not any(_has(question, word) for word in self._held))
            self._waiting.remove(question)
            if self.broken:
                raise ConnectionResetError
        return stand_in(question)

    def hold(self, word: str) -> None:
        with self._changed:
            self._held.add(word)

    def release(self, *words: str) -> None:
        """Let these words go; without words, all."""
        with self._changed:
            self._held -= set(words) or set(self._held)
            self._changed.notify_all()

    def waiting(self, word: str = "") -> list[Question]:
        with self._changed:
            return [question for question in self._waiting if _has(question, word)]


def _has(question: Question, word: str) -> bool:
    return word in f"{question.task} {question.text}"


@contextlib.contextmanager
def held_model() -> Iterator[tuple[HeldModel, str]]:
    """A model, and the address of its server."""
    model = HeldModel()
    with ModelServer(0, model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield model, server.url
        model.release()
        server.shutdown()
