"""The web application of a pod: upload a file, see the totals change; and the pod's worker."""

from __future__ import annotations

import logging
import os
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response, UploadFile
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse
from fastapi.templating import Jinja2Templates
from pydantic import AwareDatetime, BaseModel, StringConstraints
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from examples.emissions.activity_csv import NotReadable, check_header
from examples.emissions.ledger import Organisation, Total, Upload, async_sessions, create_tables
from examples.emissions.tasks import Subject, current, recalculate_later, tasks, whole_pipeline, without_file
from rowlock import InvalidId, Job, JobNotFound, Started, State, WorkflowNotFound, WorkflowView, WrongState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LARGEST_FILE: Final = 20_000_000
POD: Final = os.environ.get("POD_NAME", "this pod")
LABELS: Final = {
    "emissions.ingest_csv": "Ingest CSV",
    "emissions.sync_factors": "Sync factors",
    "emissions.sync_units": "Sync units",
    "emissions.recalculate": "Recalculate",
    "emissions.recalculate_on_loop": "Recalculate",
}
"""What people call the steps."""
templates = Jinja2Templates(Path(__file__).parent / "templates")
pages = APIRouter()

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]


async def get_session() -> AsyncIterator[AsyncSession]:
    """A session for one request; what is not committed is rolled back."""
    async with async_sessions(tasks)() as session:
        yield session


InSession = Annotated[AsyncSession, Depends(get_session)]


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """A worker in every pod, unless ROWLOCK_WORKER=off."""
    await run_in_threadpool(create_tables, tasks)
    try:
        async with tasks.worker(name=os.environ.get("POD_NAME")):
            yield
    finally:
        await tasks.close()


def create_app() -> FastAPI:
    """The application that uvicorn serves, once per pod."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    host = FastAPI(title="Emissions", lifespan=lifespan)
    host.include_router(pages)
    for missing in (JobNotFound, WorkflowNotFound, InvalidId):
        host.add_exception_handler(missing, _not_found)
    return host


def _not_found(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, HTTPStatus.NOT_FOUND)


def refuse_other_sites(request: Request) -> None:
    """Refuse changes that a page of another site sends with a visitor's browser."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(HTTPStatus.FORBIDDEN, "This request comes from a page of another site.")


CHANGES: Final = [Depends(refuse_other_sites)]


# --- changes ----------------------------------------------------------------------------------------------------------


@pages.post("/organisations/{organisation}/uploads", status_code=HTTPStatus.ACCEPTED, dependencies=CHANGES)
async def upload_file(organisation: Name, file: UploadFile, session: InSession, response: Response) -> dict[str, Any]:
    """Store a file and start the pipeline, in one transaction. 409: a run is current, and nothing is stored."""
    content = await _text_of(file)
    await _known(session, organisation)
    stored = Upload(organisation=organisation, file=file.filename or "upload.csv", content=content)
    session.add(stored)
    await session.flush()
    options = whole_pipeline.options(unique_key=current(organisation), on_conflict="keep", session=session)
    started = await options.enqueue(stored.id)
    if started.what == "kept":
        message = f"Run {started.public_id} of {organisation} is not over. Upload the file again when it is."
        raise HTTPException(HTTPStatus.CONFLICT, message)
    return await _accepted(session, organisation, started, response)


async def _text_of(file: UploadFile) -> str:
    content = await file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        message = f"The file has more than {LARGEST_FILE:,} bytes. Upload it in parts, under different names."
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
    try:
        text = content.decode("utf-8-sig")
        check_header(text)
    except UnicodeDecodeError as error:
        message = f"The file is not UTF-8 text: byte {error.start + 1} cannot be read. Save it as “CSV UTF-8”."
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, message) from error
    except NotReadable as error:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
    if "\0" in text:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "The file has null bytes; it is not a CSV file.")
    return text


@pages.post("/organisations/{organisation}/recalculations", status_code=HTTPStatus.ACCEPTED, dependencies=CHANGES)
async def recalculate(organisation: Name, session: InSession, response: Response) -> dict[str, Any]:
    """Sync and recalculate without a new file. A run that is current is the answer, too."""
    await _known(session, organisation)
    options = without_file.options(unique_key=current(organisation), on_conflict="keep", session=session)
    started = await options.enqueue(Subject(organisation=organisation))
    return await _accepted(session, organisation, started, response)


class Later(BaseModel):
    """When to begin, with a time zone."""

    at: AwareDatetime


@pages.post("/organisations/{organisation}/recalculations/later", status_code=HTTPStatus.ACCEPTED, dependencies=CHANGES)
async def schedule(organisation: Name, later: Later, session: InSession) -> dict[str, Any]:
    """Recalculate at a time: a job whose run_after is then, and which starts the chain."""
    await _known(session, organisation)
    job = await recalculate_later.options(run_at=later.at, session=session).enqueue(organisation)
    await session.commit()
    return {"job": job.public_id}


async def _known(session: AsyncSession, organisation: str) -> None:
    await session.execute(insert(Organisation).values(name=organisation).on_conflict_do_nothing())


async def _accepted(
    session: AsyncSession, organisation: str, started: Started[Any], response: Response
) -> dict[str, Any]:
    (await session.get_one(Organisation, organisation)).run = started.id
    await session.commit()
    response.headers["Location"] = f"/runs/{started.public_id}"
    return {"run": started.public_id, "what": started.what}


# --- what there is ----------------------------------------------------------------------------------------------------


@pages.get("/")
async def home() -> Response:
    """Lead to the page of an organisation."""
    return RedirectResponse("/organisations/acme")


@pages.get("/organisations/{organisation}")
async def page(organisation: Name, session: InSession, request: Request) -> Response:
    """Totals, the current or last run with its progress, and the upload form."""
    found = await session.get(Organisation, organisation)
    run = await tasks.workflows.get(found.run) if found and found.run else None
    shown = {
        "organisation": organisation,
        "totals": await _totals(session, organisation),
        "run": run,
        "steps": [] if run is None else [(step, await _token(step.public_id)) for step in run.steps],
        "problems": [] if run is None else _problems(run),
        "labels": LABELS,
        "pod": POD,
        "api": os.environ.get("ROWLOCK_API", "http://127.0.0.1:8000/api/v1"),
    }
    return templates.TemplateResponse(request, "organisation.html", shown)


@pages.get("/organisations/{organisation}/totals")
async def totals(organisation: Name, session: InSession) -> list[dict[str, Any]]:
    """Tonnes of CO2e by year and scope."""
    return await _totals(session, organisation)


async def _totals(session: AsyncSession, organisation: str) -> list[dict[str, Any]]:
    wanted = select(Total).where(Total.organisation == organisation).order_by(Total.year, Total.scope)
    return [
        {"year": each.year, "scope": each.scope, "tonnes_co2e": float(each.kg_co2e / 1000), "lines": each.lines}
        for each in await session.scalars(wanted)
    ]


@pages.get("/runs/{run}")
async def run_status(run: str) -> dict[str, Any]:
    """Where a run is, step by step, with what it found wrong."""
    found = await tasks.workflows.get(run)
    return {
        "run": found.public_id,
        "state": found.state,
        "steps": [_status_of(await tasks.jobs.get(step.job_id)) for step in found.steps],
        "problems": _problems(found),
    }


@pages.get("/jobs/{job}/status")
async def job_status(job: str) -> dict[str, Any]:
    """Where one job is."""
    return _status_of(await tasks.jobs.get(job))


def _status_of(job: Job) -> dict[str, Any]:
    return {
        "job": job.public_id,
        "kind": job.kind,
        "state": job.state,
        "pod": job.worker,
        "runs": job.runs,
        "run_after": job.run_after,
        "claimed_at": job.claimed_at,
        "finished_at": job.finished_at,
        "result": job.result,
    }


@pages.post("/jobs/{job}/run", dependencies=CHANGES)
async def run_now(job: str) -> dict[str, Any]:
    """Run one job in this pod, whatever its kind: the boundary at which another runner can take over. 409: taken."""
    try:
        return _status_of(await tasks.run_job(job))
    except WrongState as error:
        raise HTTPException(HTTPStatus.CONFLICT, str(error)) from error


@pages.get("/jobs/{job}/token")
async def job_token(job: str) -> dict[str, str]:
    """A new token for <rowlock-progress>, when that of the page has expired."""
    return {"token": await _token(job)}


async def _token(job: str) -> str:
    token = await tasks.tokens.for_job(job, show=["error"])
    return token.text


def _problems(run: WorkflowView) -> list[str]:
    """What the steps of a run found wrong: bad lines, or why one failed."""
    found: list[str] = []
    for step in run.steps:
        errors = step.errors or {}
        match errors.get("errors"):
            case list(messages):
                found += map(str, messages)
            case _ if step.state == State.FAILED:
                found.append(f"{step.name}: {errors.get('message') or errors.get('reason')}")
            case _:
                pass
    return found
