"""Lane system: backups, merging of the vocabulary, cleaning up, missing vectors."""

from __future__ import annotations

from itertools import combinations

from sqlalchemy import delete, func, select, text

from examples.knowledge_graph.graph import backup, merge_relation, store_vector
from examples.knowledge_graph.maintenance import keep, newest
from examples.knowledge_graph.tables import Artifact, Concept, Document, Edge, RelationType
from examples.knowledge_graph.tasks import PATIENT, models, new_session, tasks
from rowlock import Cancel, SyncContext


@tasks.job("restore")
def restore(ctx: SyncContext, *, make_backup: bool = False) -> int | Cancel:
    """Put the newest backup in the place of the graph; or make that backup."""
    if make_backup:
        with new_session() as session:
            content = backup(session)
        keep(ctx, "backup", content)
        return len(content)
    found = newest("backup")
    if found is None:
        return Cancel("there is no backup")
    with new_session() as session:
        session.execute(delete(Concept))  # its edges go with it
        for label, vector, mentions in found.content["concepts"]:
            session.add(Concept(label=label, vector=vector, mentions=mentions))
        session.flush()
        for source, relation, target, mentions in found.content["edges"]:
            session.merge(RelationType(name=relation))
            session.flush()
            session.add(Edge(source=source, relation=relation, target=target, mentions=mentions))
        with ctx.guarded(session):
            session.commit()
    return len(found.content["concepts"])


@tasks.job("vocab_consolidate")
def consolidate(ctx: SyncContext, alike: float = 0.9) -> list[str]:
    """Merge relation types whose vectors are nearly the same into the first by name."""
    merged: list[str] = []
    with new_session() as session:
        types = session.scalars(
            select(RelationType).where(RelationType.vector.is_not(None)).order_by(RelationType.name)
        ).all()
        vectors = {each.name: each.vector or [] for each in types}
        for one, other in combinations(vectors, 2):
            ctx.check()
            likeness = sum(a * b for a, b in zip(vectors[one], vectors[other], strict=True))
            if likeness >= alike and not {one, other} & set(merged):
                merge_relation(session, other, one)
                merged.append(other)
        with ctx.guarded(session):
            session.commit()
    return merged


@tasks.schedule("0 4 * * SUN", overlap="skip")
@tasks.job("artifact_cleanup")
def clean_up(ctx: SyncContext, days: int = 7) -> int:
    """Remove artifacts of more than some days ago."""
    with new_session() as session:
        old = Artifact.created_at < func.now() - text("make_interval(days => :days)").bindparams(days=days)
        gone = session.execute(delete(Artifact).where(old).returning(Artifact.job_id)).all()
        with ctx.guarded(session):
            session.commit()
    return len(gone)


@tasks.schedule("0 3 * * *", overlap="skip")
@tasks.job("source_embedding", retry=PATIENT)
def embed_sources(ctx: SyncContext) -> int:
    """Give documents that have none their vector, one after the other."""
    with new_session() as session:
        missing = session.execute(select(Document.id, Document.text).where(Document.vector.is_(None))).all()
    with ctx.phase("embed", total=len(missing)) as phase:
        for number, content in missing:
            vector = models.embed(content)
            with new_session() as session:
                store_vector(session, number, vector)
                session.commit()
            phase.advance()
    return len(missing)
