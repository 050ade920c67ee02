"""The Generator: the pipeline from source texts to an ontology. It keeps state per process and is not thread-safe."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from examples.ontology.language_model import LanguageModel, Question

if TYPE_CHECKING:
    from collections.abc import Iterator


class Source(BaseModel):
    """A text that an ontology is made of."""

    name: str = Field(min_length=1, max_length=200)
    text: str = Field(min_length=1, max_length=100_000)


class OntologyRequest(BaseModel):
    """What a person submits."""

    name: str = Field(min_length=1, max_length=200)
    sources: list[Source] = Field(min_length=1, max_length=200)


class GeneratorBusy(Exception):
    """A second run began in this process while the first was not over."""


class Generator:
    """One per process. `with generator.run():` refuses a second run beside the first."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._busy = threading.Lock()

    @contextmanager
    def run(self) -> Iterator[None]:
        """The process-wide state (caches, standard output, logging) belongs to this run until the block ends."""
        if not self._busy.acquire(blocking=False):
            message = "The Generator is busy with another run in this process. Its lane must have one slot per pod."
            raise GeneratorBusy(message)
        try:
            yield
        finally:
            self._busy.release()

    def concepts(self, run_id: str, source: Source) -> list[str]:
        """The concepts of one text."""
        return self._model.ask(Question(run_id, "concepts", source.text))

    def relations(self, run_id: str, request: OntologyRequest) -> list[str]:
        """Pairs of concepts that belong together."""
        return self._model.ask(Question(run_id, "relations", "\n".join(source.text for source in request.sources)))
