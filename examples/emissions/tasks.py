"""The pipeline: ingest a file, sync factors, sync units, recalculate. Each handler is a kind; a chain joins them."""

from __future__ import annotations

import os
import time
from typing import Final, Literal

from pydantic import BaseModel

from examples.emissions import activity_csv
from examples.emissions.carrier import carrier
from examples.emissions.inventory import Inventory
from examples.emissions.ledger import (
    Organisation,
    Upload,
    async_sessions,
    known_version,
    read_activities,
    read_factors,
    read_units,
    replace_file,
    replace_publication,
    replace_totals,
    sessions,
)
from examples.emissions.registry import Registry
from rowlock import Chain, Context, Partial, Retry, Rowlock, SyncContext, chain

SAFETY_NET: Final = "10s"
"""How often an idle pod looks for jobs of which no message told it."""
SILENT: Final = "5s"
"""A pod that is silent for so long has lost its jobs: with the rescue, they run elsewhere within ten seconds."""
PATIENT: Final = Retry(attempts=5, minimum="2s", multiplier=2, on=(OSError,))
"""The registry may be away for a moment; any other error would come again."""
CALCULATE_IN: Final = os.environ.get("CALCULATE_IN", "process")
"""Where the calculation computes: "process" (a child of its own), "thread", or "loop": the pod's event loop."""
BATCH: Final = 500
SHOWN: Final = 200
"""Messages about bad lines that a job keeps."""

_carrier = carrier()
tasks = Rowlock(delivery=_carrier)
celery_app = None if _carrier is None else _carrier.celery
registry = Registry(os.environ.get("REGISTRY_URL", "http://127.0.0.1:8100/"))
tasks.lanes.define("default", kinds=["*"], slots=4, poll_interval=SAFETY_NET, heartbeat_timeout=SILENT)


class Subject(BaseModel):
    """What every step passes on."""

    organisation: str


class Ingested(Subject):
    """What became of a file."""

    file: str
    lines: int
    rejected: int


class Synced(Subject):
    """Which version of a publication the tables hold now, and whether it is new."""

    version: str
    is_new: bool


class Report(Subject):
    """What a recalculation found."""

    tonnes_co2e: float
    lines: int
    rejected: int
    seconds: float
    """How long it computed."""


# --- the steps --------------------------------------------------------------------------------------------------------


@tasks.job("emissions.ingest_csv", retry=PATIENT, refs=lambda upload: {"upload": upload})
def ingest_csv(ctx: SyncContext, upload: int) -> Ingested | Partial:
    """Read an uploaded file. Bad lines are left out, and named in the job."""
    with sessions(tasks)() as session:
        found = session.get_one(Upload, upload)
        read = activity_csv.read(found.file, found.content)
        replace_file(session, found.organisation, found.file, read)
        with ctx.guarded(session):
            session.commit()
    ingested = Ingested(
        organisation=found.organisation, file=found.file, lines=len(read.activities), rejected=len(read.rejected)
    )
    return Partial(ingested, shown(read.rejected)) if read.rejected else ingested


@tasks.job("emissions.sync_factors", retry=PATIENT)
def sync_factors(ctx: SyncContext, subject: Subject) -> Synced:
    """Bring the emission factors up to date."""
    return sync(ctx, subject, "factors")


@tasks.job("emissions.sync_units", retry=PATIENT)
def sync_units(ctx: SyncContext, subject: Subject) -> Synced:
    """Bring the units up to date."""
    return sync(ctx, subject, "units")


def sync(ctx: SyncContext, subject: Subject, publication: Literal["factors", "units"]) -> Synced:
    """Ask the registry, and write what is new while this attempt holds its job."""
    with sessions(tasks)() as session:
        known = known_version(session, publication)
        session.rollback()  # no transaction stays open while the registry thinks
        new = registry.read(publication, known)
        if new is None:
            return Synced(organisation=subject.organisation, version=str(known), is_new=False)
        replace_publication(session, publication, new)
        with ctx.guarded(session):
            session.commit()
    return Synced(organisation=subject.organisation, version=new.version, is_new=True)


@tasks.job(
    "emissions.recalculate",
    executor="process" if CALCULATE_IN == "process" else "thread",
    memory="1GiB" if CALCULATE_IN == "process" else None,
)
def recalculate(ctx: SyncContext, subject: Subject) -> Report | Partial:
    """Calculate all emissions of an organisation anew."""
    with sessions(tasks)() as session:
        activities = read_activities(session, subject.organisation)
        inventory = Inventory(read_factors(session), read_units(session))
        session.rollback()  # computing needs no transaction
        began = time.monotonic()
        with ctx.phase("calculate", total=len(activities)) as phase:
            for start in range(0, len(activities), BATCH):
                some = activities[start : start + BATCH]
                inventory.add(some)
                phase.advance(len(some))
        seconds = time.monotonic() - began
        replace_totals(session, subject.organisation, inventory, ctx.job.public_id)
        with ctx.guarded(session):
            session.commit()
    return report(subject, inventory, seconds)


@tasks.job("emissions.recalculate_on_loop")
async def recalculate_on_loop(ctx: Context, subject: Subject) -> Report | Partial:
    """The same on the pod's event loop: while it computes, the pod answers no request."""
    async with async_sessions(tasks)() as session:
        activities = await session.run_sync(read_activities, subject.organisation)
        inventory = Inventory(await session.run_sync(read_factors), await session.run_sync(read_units))
        await session.rollback()
        began = time.monotonic()
        inventory.add(activities)
        seconds = time.monotonic() - began
        await session.run_sync(replace_totals, subject.organisation, inventory, ctx.job.public_id)
        async with ctx.guarded(session):
            await session.commit()
    return report(subject, inventory, seconds)


def report(subject: Subject, inventory: Inventory, seconds: float) -> Report | Partial:
    """The result of a recalculation: partial if there were lines that it could not calculate."""
    result = Report(
        organisation=subject.organisation,
        tonnes_co2e=round(float(sum(inventory.kg_co2e.values())) / 1000, 6),
        lines=sum(inventory.lines.values()),
        rejected=len(inventory.rejected),
        seconds=round(seconds, 3),
    )
    return Partial(result, shown(inventory.rejected)) if inventory.rejected else result


def shown(messages: list[str]) -> list[str]:
    """The first of the messages, and how many there are besides."""
    more = len(messages) - SHOWN
    return messages if more <= 0 else [*messages[:SHOWN], f"… and {more} more"]


# --- the chains -------------------------------------------------------------------------------------------------------

PIPELINE: Final = "emissions"
"""The name of both chains: a key belongs to a name, and at most one of them is current."""

whole_pipeline: Chain[[int], Report] = (
    chain(ingest_csv, sync_factors, sync_units, recalculate_on_loop, name=PIPELINE)
    if CALCULATE_IN == "loop"
    else chain(ingest_csv, sync_factors, sync_units, recalculate, name=PIPELINE)
)
without_file: Chain[[Subject], Report] = (
    chain(sync_factors, sync_units, recalculate_on_loop, name=PIPELINE)
    if CALCULATE_IN == "loop"
    else chain(sync_factors, sync_units, recalculate, name=PIPELINE)
)


def current(organisation: str) -> str:
    """The key of the one current run of an organisation."""
    return f"organisation:{organisation}"


@tasks.job("emissions.recalculate_later", retry=PATIENT)
async def recalculate_later(organisation: str) -> str:
    """Start a recalculation when its time has come, unless a run is current, which the organisation then keeps."""
    async with async_sessions(tasks)() as session:
        options = without_file.options(unique_key=current(organisation), on_conflict="keep", session=session)
        started = await options.enqueue(Subject(organisation=organisation))
        (await session.get_one(Organisation, organisation)).run = started.id
        await session.commit()
    return started.public_id
