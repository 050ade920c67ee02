"""What is known: reading triples from text, and writing them to the graph."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert

from examples.knowledge_graph.tables import Concept, Document, Edge, RelationType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.orm import Session

_CONCEPT: Final = re.compile(r"[A-Z]\w+(?: [A-Z]\w+)*")
_ARTICLES: Final = re.compile(r"\b(?:[Tt]he|[Aa]n?|[Ee]ach|[Ee]very)\s+(?=[A-Z])")
_SENTENCE: Final = re.compile(r"[^.!?]+")
_LONGEST: Final = 40


class Triple(NamedTuple):
    """Two concepts and the relation between them: Driver NEEDS Licence."""

    source: str
    relation: str
    target: str


def chunks_of(text: str) -> list[str]:
    """The paragraphs of a text."""
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def triples_of(chunk: str) -> list[Triple]:
    """Neighbouring concepts of each sentence, related by the words between them."""
    found = []
    for sentence in _SENTENCE.findall(_ARTICLES.sub("", chunk)):
        concepts = list(_CONCEPT.finditer(sentence))
        for one, other in pairwise(concepts):
            words = re.findall(r"[a-z]+", sentence[one.end() : other.start()])
            found.append(Triple(one[0], "_".join(words).upper()[:_LONGEST] or "RELATES_TO", other[0]))
    return found


def add(session: Session, triples: Sequence[Triple], vectors: Mapping[str, list[float]]) -> None:
    """Write the triples of a chunk; what is known already is counted once more."""
    # In the order of their keys: two ingestions at once wait for each other, and never in a circle.
    for label in sorted(vectors):
        known = insert(Concept).values(label=label, vector=vectors[label], mentions=1)
        session.execute(known.on_conflict_do_update(index_elements=["label"], set_={"mentions": Concept.mentions + 1}))
    for relation in sorted({each.relation for each in triples}):
        session.execute(insert(RelationType).values(name=relation, certainty=0.0).on_conflict_do_nothing())
    for triple in sorted(set(triples)):
        edge = insert(Edge).values(**triple._asdict(), mentions=1)
        key = ["source", "relation", "target"]
        session.execute(edge.on_conflict_do_update(index_elements=key, set_={"mentions": Edge.mentions + 1}))


def merge_relation(session: Session, name: str, into: str) -> None:
    """Move every edge of one relation to another, and forget its name."""
    for edge in session.scalars(select(Edge).where(Edge.relation == name)).all():
        values = {"source": edge.source, "relation": into, "target": edge.target}
        there = insert(Edge).values(**values, mentions=edge.mentions)
        key = ["source", "relation", "target"]
        more = {"mentions": Edge.mentions + edge.mentions}
        session.execute(there.on_conflict_do_update(index_elements=key, set_=more))
        session.delete(edge)
    session.flush()
    gone = session.get(RelationType, name)
    if gone is not None:
        session.delete(gone)


def backup(session: Session) -> dict[str, object]:
    """The whole graph as JSON."""
    concepts = session.scalars(select(Concept).order_by(Concept.label))
    edges = session.scalars(select(Edge).order_by(Edge.source, Edge.relation, Edge.target))
    return {
        "concepts": [[each.label, each.vector, each.mentions] for each in concepts],
        "edges": [[each.source, each.relation, each.target, each.mentions] for each in edges],
    }


def store_vector(session: Session, document: int, vector: list[float]) -> None:
    """Give a document its vector."""
    session.execute(update(Document).where(Document.id == document).values(vector=vector))
