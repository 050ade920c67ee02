"""The queue: two kinds of jobs in one lane, oldest first, one at a time in each pod."""

from __future__ import annotations

import os
from typing import Final

from pydantic import BaseModel, Field

from examples.ontology.generator import Generator, OntologyRequest
from examples.ontology.language_model import LanguageModel
from examples.ontology.ontologies import Ontology, sessions
from rowlock import Cancel, Retry, Rowlock, SyncContext

EXECUTOR_MAX_WORKERS: Final = 1
"""Jobs at once in a pod: the Generator is not thread-safe."""
MAX_JOB_ATTEMPTS: Final = 3
"""Failures, and likewise losses and stalls, after which a job is failed."""
MAX_JOB_AGE: Final = "24h"
"""After this time a job is ended, whether it waits or runs."""
LANE: Final = "generator"
PATIENT: Final = Retry(attempts=MAX_JOB_ATTEMPTS, minimum="2s", multiplier=2, on=(OSError,))
"""The language model may be away for a moment; any other error would come again."""

tasks = Rowlock()
generator = Generator(LanguageModel(os.environ.get("LANGUAGE_MODEL_URL", "http://127.0.0.1:8100/")))

tasks.lanes.define(
    LANE,
    kinds=["ontology.generate", "ontology.harness"],
    slots=EXECUTOR_MAX_WORKERS,
    order="strict",  # oldest first over all pods, exactly
    poll_interval="2s",
    heartbeat_timeout="30s",  # a pod that is silent for so long has lost its job
    progress_timeout="15m",  # a job that reaches no checkpoint for so long is requeued
)


class RunSummary(BaseModel):
    """What a generation leaves in the job's row."""

    run_id: str
    concepts: int
    relations: int


class HarnessRequest(BaseModel):
    """Which ontology to examine, and the concepts that it should have."""

    ontology: str = Field(description="Job id of the generation.")
    expected: list[str] = Field(min_length=1, max_length=10_000)


class HarnessReport(BaseModel):
    """How much of what was expected an ontology has."""

    found: int
    missing: list[str]


def run_id_of(ctx: SyncContext) -> str:
    """The job and the number of this run: no two attempts share it."""
    return f"{ctx.job.public_id}/{ctx.job.runs}"


@tasks.job("ontology.generate", lane=LANE, retry=PATIENT, max_age=MAX_JOB_AGE)
def generate(ctx: SyncContext, request: OntologyRequest) -> RunSummary:
    """Make an ontology; each source that is done is a checkpoint, from which a later attempt goes on."""
    run_id = run_id_of(ctx)
    with generator.run():
        concepts: dict[str, list[str]] = ctx.checkpoint.load() or {}
        with ctx.phase("extract", total=len(request.sources), done=len(concepts)) as phase:
            for number, source in enumerate(request.sources):
                if str(number) not in concepts:
                    concepts[str(number)] = generator.concepts(run_id, source)
                    ctx.checkpoint.save(concepts)  # raises when this attempt was stopped or superseded
                    phase.advance(message=source.name)
        with ctx.phase("relate"):
            relations = generator.relations(run_id, request)
        with ctx.phase("publish"):
            found = sorted({each for one in concepts.values() for each in one})
            publish(ctx, Ontology(run_id=run_id, name=request.name, concepts=found, relations=relations))
    return RunSummary(run_id=run_id, concepts=len(found), relations=len(relations))


def publish(ctx: SyncContext, ontology: Ontology) -> None:
    """Commit the row only while this attempt holds its job: ClaimLost otherwise, and nothing is written."""
    ontology.job_id = ctx.job.public_id
    with sessions(tasks)() as session:
        session.merge(ontology)
        with ctx.guarded(session):
            session.commit()


@tasks.job("ontology.harness", lane=LANE, retry=PATIENT, max_age=MAX_JOB_AGE)
def examine(ctx: SyncContext, request: HarnessRequest) -> HarnessReport | Cancel:
    """Compare an ontology with what experts expect of it."""
    with generator.run(), sessions(tasks)() as session:
        ontology = session.get(Ontology, request.ontology)
        if ontology is None:
            return Cancel(f"there is no ontology of job {request.ontology}")
        missing = []
        with ctx.phase("compare", total=len(request.expected)) as phase:
            for concept in request.expected:
                if concept not in ontology.concepts:
                    missing.append(concept)
                phase.advance()
    return HarnessReport(found=len(request.expected) - len(missing), missing=missing)
