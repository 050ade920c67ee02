"""Lane interactive: what a person has asked for and waits for."""

from __future__ import annotations

import math

from pydantic import BaseModel
from sqlalchemy import select

from examples.knowledge_graph.graph import add, chunks_of, triples_of
from examples.knowledge_graph.tables import Concept, Document
from examples.knowledge_graph.tasks import PATIENT, USER_PRIORITY, models, new_session, tasks
from rowlock import Approval, Cancel, SyncContext

BY_ITS_OWNER = Approval(four_eyes=False)
"""A person looks at the price of an ingestion and approves it, their own too."""


class IngestReport(BaseModel):
    """What an ingestion has read. resumed_at: the chunk at which the last attempt began."""

    chunks: int
    concepts: int
    resumed_at: int


@tasks.job("ingestion", priority=USER_PRIORITY, approval=BY_ITS_OWNER, retry=PATIENT)
def ingest(ctx: SyncContext, document: int) -> IngestReport | Cancel:
    """Read a document chunk by chunk; a later attempt goes on after the last chunk that was committed."""
    with new_session() as session:
        found = session.get(Document, document)
    if found is None:
        return Cancel(f"there is no document {document}")
    return read_chunks(ctx, chunks_of(found.text))


@tasks.job("ingest_image", priority=USER_PRIORITY, approval=BY_ITS_OWNER, retry=PATIENT)
def ingest_image(ctx: SyncContext, name: str) -> IngestReport:
    """Have an image described, then read the description."""
    with ctx.phase("describe"):
        text = models.describe(name)
    return read_chunks(ctx, chunks_of(text))


def read_chunks(ctx: SyncContext, chunks: list[str]) -> IngestReport:
    """Add each chunk and the position behind it in one transaction: no chunk counts twice, whatever dies."""
    begin = ctx.checkpoint.load() or 0
    concepts: set[str] = set()
    with ctx.phase("read", total=len(chunks), done=begin) as phase:
        for number in range(begin, len(chunks)):
            triples = triples_of(chunks[number])
            labels = {label for each in triples for label in (each.source, each.target)}
            vectors = {label: models.embed(label) for label in sorted(labels)}
            with new_session() as session:
                add(session, triples, vectors)
                ctx.checkpoint.save(number + 1, session=session)
                session.commit()
            concepts |= labels
            phase.advance(message=chunks[number][:60])  # raises here when the job was cancelled
    return IngestReport(chunks=len(chunks), concepts=len(concepts), resumed_at=begin)


@tasks.job("polarity", priority=USER_PRIORITY, retry=PATIENT)
def polarity(ctx: SyncContext, negative: str, positive: str) -> dict[str, float]:
    """Place every concept on the axis between two texts: -1 to 1."""
    low, high = models.embed(negative), models.embed(positive)
    axis = [b - a for a, b in zip(low, high, strict=True)]
    length = math.hypot(*axis) or 1.0
    with new_session() as session:
        concepts = session.scalars(select(Concept)).all()
    with ctx.phase("measure", total=len(concepts)) as phase:
        found = {}
        for concept in concepts:
            found[concept.label] = round(sum(a * b for a, b in zip(axis, concept.vector, strict=True)) / length, 3)
            phase.advance()
    return found
