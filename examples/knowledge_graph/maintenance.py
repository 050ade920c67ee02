"""Lane maintenance: computations and upkeep of the graph, in the background."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime

from pydantic import BaseModel
from sqlalchemy import func, select

from examples.knowledge_graph.annealing import SWEEPS, groups_while_cooling
from examples.knowledge_graph.projection import Layout, affinities, improve
from examples.knowledge_graph.tables import Artifact, Concept, Edge, Proposal, RelationType
from examples.knowledge_graph.tasks import PATIENT, models, new_session, tasks
from rowlock import Cancel, SyncContext

_LEAST_POINTS = 60
"""A small graph gets points by chance beside its own, so that the layout has a shape."""
_SAVED_EVERY = 25


class ProjectionReport(BaseModel):
    """What a projection did. resumed_at: the iteration at which the last attempt began."""

    points: int
    iterations: int
    resumed_at: int


@tasks.job("projection", executor="process", memory="1GiB", retry=PATIENT)
def project(ctx: SyncContext, iterations: int = 300) -> ProjectionReport:
    """Place all concepts in a plane (t-SNE). It computes in a child process, and holds no connection meanwhile."""
    with new_session(pooled=False) as session:
        vectors = {concept.label: concept.vector for concept in session.scalars(select(Concept))}
    chance = random.Random(1)  # noqa: S311 - not for secrets
    filled = [*vectors.values(), *([chance.gauss(0, 1) for _ in range(3)] for _ in range(_LEAST_POINTS - len(vectors)))]
    size = max(map(len, filled))
    near = affinities([[*vector, *[0.0] * (size - len(vector))] for vector in filled])
    saved = ctx.checkpoint.load()
    layout = Layout(**saved) if saved and len(saved["points"]) == len(filled) else Layout.start(len(filled))
    begin = layout.iteration
    with ctx.phase("layout", total=iterations, done=begin) as phase:
        while layout.iteration < iterations:
            layout = improve(layout, near)
            phase.advance()  # between two iterations it can be cancelled
            if layout.iteration % _SAVED_EVERY == 0:
                ctx.checkpoint.save(vars(layout))
    points = dict(zip(vectors, layout.points, strict=False))
    keep(ctx, "projection", {"points": points})
    return ProjectionReport(points=len(points), iterations=layout.iteration, resumed_at=begin)


def keep(ctx: SyncContext, sort: str, content: dict[str, object]) -> None:
    """Store an artifact of the job; a later attempt replaces that of an earlier one."""
    with new_session(pooled=False) as session:
        session.merge(Artifact(job_id=ctx.job.public_id, sort=sort, content=content))
        with ctx.guarded(session):
            session.commit()


@tasks.schedule("0 2 * * *", overlap="skip")
@tasks.job("vocab_refresh", retry=PATIENT)
def refresh_vocabulary(ctx: SyncContext) -> int:
    """Embed every relation type, one call after the other."""
    with new_session() as session:
        names = session.scalars(select(RelationType.name).order_by(RelationType.name)).all()
    for name in ctx.resume("type", names):
        vector = models.embed(name.replace("_", " ").lower())
        with new_session() as session:
            found = session.get(RelationType, name)
            if found is not None:
                found.vector = vector
            session.commit()
        ctx.check()
    return len(names)


@tasks.schedule(every="1h", overlap="skip")
@tasks.job("epistemic_remeasurement", retry=PATIENT)
def remeasure(ctx: SyncContext) -> dict[str, float]:
    """How certain each relation type is: the share of its edges that more than one chunk supports."""
    with new_session() as session:
        mentions = session.execute(select(Edge.relation, Edge.mentions)).all()
        edges = Counter(relation for relation, _ in mentions)
        supported = Counter(relation for relation, count in mentions if count > 1)
        for name in sorted(edges):
            ctx.check()
            found = session.get(RelationType, name)
            if found is not None:
                found.certainty = supported[name] / edges[name]
        with ctx.guarded(session):
            session.commit()
    return {name: supported[name] / edges[name] for name in edges}


@tasks.schedule("30 2 * * *", overlap="skip")
@tasks.job("ontology_annealing", executor="process", retry=PATIENT)
def anneal(ctx: SyncContext, groups: int = 4) -> int:
    """Propose topics: groups of concepts with few relations between them, found by simulated annealing."""
    with new_session(pooled=False) as session:
        concepts = session.scalars(select(Concept.label).order_by(Concept.label)).all()
        pairs = [(source, target) for source, target in session.execute(select(Edge.source, Edge.target))]
    topics: dict[str, int] = {}
    with ctx.phase("cool", total=SWEEPS) as phase:
        for cooler in groups_while_cooling(concepts, pairs, groups):
            topics = cooler
            phase.advance()
    members = {group: sorted(each for each in topics if topics[each] == group) for group in set(topics.values())}
    with new_session(pooled=False) as session:
        session.add_all(Proposal(topic=each[0], concepts=each) for each in members.values())
        with ctx.guarded(session):
            session.commit()
    return len(members)


@tasks.job("proposal_execution", approval=True, retry=PATIENT)
def execute_proposal(ctx: SyncContext, proposal: int) -> int | Cancel:
    """Give the concepts of a proposal its topic. A person approves it, another one than who asked for it."""
    with new_session() as session:
        found = session.get(Proposal, proposal)
        if found is None:
            return Cancel(f"there is no proposal {proposal}")
        concepts = session.scalars(select(Concept).where(Concept.label.in_(found.concepts))).all()
        for concept in concepts:
            concept.topic = found.topic
        found.executed_at = datetime.now(UTC)
        with ctx.guarded(session):
            session.commit()
    return len(concepts)


def newest(sort: str) -> Artifact | None:
    """The newest artifact of that sort."""
    with new_session() as session:
        return session.scalar(
            select(Artifact).where(Artifact.sort == sort).order_by(Artifact.created_at.desc()).limit(1)
        )


def counts() -> dict[str, int]:
    """How large the graph is."""
    with new_session() as session:
        return {
            table.__tablename__: session.scalar(select(func.count()).select_from(table)) or 0
            for table in (Concept, Edge, RelationType, Proposal)
        }
