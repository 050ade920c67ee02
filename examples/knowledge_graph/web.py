"""The web: ten routes of Rowlock at the root of the host, a few routes of the application, and its pages."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi.templating import Jinja2Templates
from pydantic import BaseModel, Field

from examples.knowledge_graph import interactive
from examples.knowledge_graph.kinds import tasks
from examples.knowledge_graph.maintenance import counts, newest
from examples.knowledge_graph.people import COOKIE, principal_of
from examples.knowledge_graph.tables import Document
from examples.knowledge_graph.tasks import new_session
from rowlock import InvalidArguments, InvalidId, JobNotFound, Permission, Principal, UnknownKind
from rowlock.api import RowlockAPI
from rowlock.api.auth import TrustedAuth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock import Enqueued, Job

ROUTES: Final = (
    "GET /jobs",
    "GET /jobs/{id}",
    "DELETE /jobs/{id}",
    "POST /jobs/{id}/approve",
    "GET /jobs/{id}/stream",
    "GET /admin/workers/lanes",
    "PATCH /admin/workers/lanes/{name}",
    "GET /admin/workers/status",
    "POST /admin/workers/jobs/{id}/cancel",
    "PATCH /admin/workers/jobs/{id}/priority",
)
COLUMNS: Final = {
    "job_types": "kinds",
    "max_slots": "slots",
    "poll_interval_ms": "poll_interval",
    "stale_timeout_minutes": "heartbeat_timeout",
}
"""The design's names for the settings of a lane."""

api = RowlockAPI(tasks, auth=TrustedAuth(principal_of), lane_names=COLUMNS, require_if_match=False)
pages = APIRouter()
templates = Jinja2Templates(Path(__file__).parent / "templates")
USERS_KINDS: Final = frozenset({"ingest_image", "polarity"})
"""Kinds that a contributor starts by name; those of the other lanes take workers:manage."""


async def logged_in(request: Request) -> Principal:
    """Who asks; 401 for a stranger."""
    found = await principal_of(request)
    if found is None:
        raise HTTPException(401, "Log in with your key.")
    return found


User = Annotated[Principal, Depends(logged_in)]


def create_host() -> FastAPI:
    """The ten routes, the application's own, and the dashboard below /rowlock."""
    host = FastAPI(title="Knowledge graph", lifespan=api.lifespan)
    host.include_router(api.select(*ROUTES))
    host.include_router(pages)
    host.mount("/rowlock", api.asgi)
    for error, status in ((InvalidId, 404), (JobNotFound, 404), (InvalidArguments, 422), (UnknownKind, 404)):
        host.add_exception_handler(error, functools.partial(_refused, status))
    return host


def _refused(status: int, _request: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, status)


# --- work -------------------------------------------------------------------------------------------------------------


class NewDocument(BaseModel):
    """A text to read into the graph."""

    title: str = Field(min_length=1, max_length=200)
    text: str = Field(min_length=1, max_length=500_000)


@pages.post("/documents", status_code=202)
def add_document(document: NewDocument, user: User, response: Response) -> dict[str, str]:
    """Store a document and its ingestion in one transaction. The ingestion waits for approval."""
    demand(user, Permission.SUBMIT)
    with new_session() as session:
        stored = Document(title=document.title, text=document.text)
        session.add(stored)
        session.flush()
        wanted = interactive.ingest.options(submitted_by=user.subject, session=session)
        job = wanted.enqueue_sync(document=stored.id)
        session.commit()
    return accepted(job, response)


@pages.post("/work/{kind}", status_code=202)
async def start(kind: str, user: User, args: dict[str, Any], response: Response) -> dict[str, str]:
    """Start any other kind. Those of the lanes maintenance and system are for operators."""
    demand(user, Permission.SUBMIT if kind in USERS_KINDS else Permission.WORKERS_MANAGE)
    if kind not in tasks.tasks or kind == "ingestion":
        raise HTTPException(404, f"There is no kind {kind!r} to start here.")
    return accepted(await tasks.tasks[kind].options(submitted_by=user.subject).enqueue(**args), response)


def demand(user: Principal, permission: Permission) -> None:
    """Refuse a person without the permission."""
    if not user.may(permission):
        raise HTTPException(403, f"{user.subject} lacks the permission {permission}.")


def accepted(job: Enqueued[Any], response: Response) -> dict[str, str]:
    """The job's id, and where to follow it."""
    response.headers["Location"] = f"/jobs/{job.public_id}"
    return {"job_id": job.public_id}


# --- pages ------------------------------------------------------------------------------------------------------------


@pages.get("/login")
async def login(key: str, request: Request) -> Response:
    """Keep a person's key in a cookie; the printed links lead here."""
    request.scope["headers"] = [*request.scope["headers"], (b"authorization", f"Bearer {key}".encode())]
    await logged_in(Request(request.scope))
    answer = RedirectResponse("/", status_code=303)
    answer.set_cookie(COOKIE, key, httponly=True, samesite="strict")
    return answer


@pages.get("/")
async def home(request: Request, user: User) -> Response:
    """The person's jobs with their progress, and the graph."""
    listed: Sequence[Job] = ()
    if user.may(Permission.READ):
        listed = (await tasks.desk(user).jobs.search(sort="newest", limit=12)).items
    shown = [(job, (await tasks.tokens.for_job(job.id, user=user.subject)).text) for job in listed]
    size, projection = await asyncio.to_thread(lambda: (counts(), newest("projection")))
    told = {"user": user, "jobs": shown, "counts": size, "may": user.may, "points": places(projection)}
    return templates.TemplateResponse(request, "home.html", told)


@pages.get("/operate")
async def operate(request: Request, user: User) -> Response:
    """Lanes, slots and what waits: the page asks the ten routes by itself."""
    demand(user, Permission.WORKERS_VIEW)
    return templates.TemplateResponse(request, "operate.html", {"user": user})


@pages.get("/tokens/{job_id}")
async def token(job_id: str, user: User) -> dict[str, str]:
    """A new token for <rowlock-progress>, when that of the page has expired."""
    job = await tasks.desk(user).jobs.get(job_id)
    return {"token": (await tasks.tokens.for_job(job.id, user=user.subject)).text}


def places(projection: Any) -> list[tuple[str, float, float]]:  # noqa: ANN401 - an Artifact or None
    """Where each concept is drawn, in percent."""
    points = {} if projection is None else projection.content["points"]
    if not points:
        return []
    lows, highs = [[pick(each[axis] for each in points.values()) for axis in (0, 1)] for pick in (min, max)]
    return [
        (label, *(5 + 90 * (at[axis] - lows[axis]) / ((highs[axis] - lows[axis]) or 1) for axis in (0, 1)))
        for label, at in points.items()
    ]


host = create_host()
