"""The web application: begin an adventure, decide how it goes on, read it. It enqueues jobs and runs none."""

from __future__ import annotations

import contextlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated
from uuid import UUID, uuid4

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncSession

from examples.adventures.accounts import CurrentUser, token_of
from examples.adventures.adventure_service import AdventureService, CannotBeDecided, NotFound, Story
from examples.adventures.database import Entry, engine, request_session
from examples.adventures.outbound.http import ServiceFailed
from examples.adventures.outbound.services import open_services
from examples.adventures.pages import pages
from examples.adventures.tasks import generate_adventure_entry, tasks
from rowlock.api import RowlockAPI
from rowlock.api.auth import TokenAuth

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def lifespan(host: FastAPI) -> AsyncIterator[None]:
    """Open the services, the storage and the queue. No worker: that is a process of its own."""
    async with contextlib.asynccontextmanager(open_services)() as services, tasks:
        await services.storage.create()
        host.state.services = services
        yield
    await engine.dispose()


app = FastAPI(title="Adventures", lifespan=lifespan)
app.include_router(pages)
# Dashboard, REST API and the module of <rowlock-progress>. Operators have tokens (`rowlock tokens create`); with
# ROWLOCK_SERVE_TOKEN, as on one's own machine, that token alone opens it, and only from this machine.
operators = None if tasks.settings.serve_token else TokenAuth(tasks)
app.mount("/ops", RowlockAPI(tasks, auth=operators).asgi)

Session = Annotated[AsyncSession, Depends(request_session, scope="function")]


def adventure_service(request: Request, session: Session) -> AdventureService:
    """The service of one request, in its session, which is committed before the answer is sent."""
    return AdventureService(session, request.app.state.services)


Service = Annotated[AdventureService, Depends(adventure_service, scope="function")]


class NewAdventure(BaseModel):
    """What begins an adventure."""

    title: str = Field(min_length=1, max_length=200)
    language: str = Field("es", pattern="^[a-z]{2}$", description="The language to learn.")
    reads: str = Field("en", pattern="^[a-z]{2}$", description="The language to translate into.")


class NewDecision(BaseModel):
    """The choice that is taken."""

    choice_id: UUID


class ChoiceOut(BaseModel):
    """A way to go on."""

    id: UUID
    text: str
    taken: bool


class EntryOut(BaseModel):
    """A part of an adventure."""

    id: UUID
    number: int
    status: str
    job_id: str | None
    error: str | None = None
    text: str | None = None
    translation: str | None = None
    words: list[str] | None = None
    choices: list[ChoiceOut] = []
    has_audio: bool = False


class AdventureOut(BaseModel):
    """An adventure."""

    id: UUID
    title: str
    language: str
    status: str
    entries: list[EntryOut]


# --- the two routes that need the pipeline ----------------------------------------------------------------------------


@app.post("/adventures", status_code=HTTPStatus.CREATED)
async def create_adventure(
    wanted: NewAdventure, user_id: CurrentUser, service: Service, response: Response
) -> AdventureOut:
    """Begin an adventure. Its first entry is made by a job, which is committed with it."""
    if not await service.services.translator.can_translate_to(wanted.reads):
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, f"Nothing can be translated into {wanted.reads!r}.")
    adventure, entry = await service.begin(user_id, wanted.title, wanted.language, wanted.reads)
    await enqueue(service, entry, user_id)
    response.headers["Location"] = f"/adventures/{adventure.id}"
    return shown(await service.story(user_id, adventure.id))


@app.post("/adventures/{adventure_id}/decisions", status_code=HTTPStatus.CREATED)
async def record_decision(
    adventure_id: UUID, wanted: NewDecision, user_id: CurrentUser, service: Service
) -> AdventureOut:
    """Decide how it goes on. The next entry is made by a job, which is committed with the decision."""
    entry = await service.decide(user_id, adventure_id, wanted.choice_id)
    await enqueue(service, entry, user_id)
    return shown(await service.story(user_id, adventure_id))


async def enqueue(service: AdventureService, entry: Entry, user_id: UUID) -> None:
    """A job for the entry, in the transaction of the request: both are there after the commit, or neither."""
    job = await generate_adventure_entry.options(session=service.session, submitted_by=str(user_id)).enqueue(
        adventure_id=entry.adventure_id, entry_id=entry.id, user_id=user_id
    )
    entry.job_id = job.public_id


# --- reading ----------------------------------------------------------------------------------------------------------


@app.post("/session")
async def open_session() -> dict[str, str]:
    """A token for a new guest. Accounts are none of this example's business."""
    return {"token": token_of(uuid4())}


@app.get("/adventures/{adventure_id}")
async def read_adventure(adventure_id: UUID, user_id: CurrentUser, service: Service) -> AdventureOut:
    """An adventure with its entries; programs poll it until its status is active."""
    return shown(await service.story(user_id, adventure_id))


@app.get("/adventures/{adventure_id}/entries/{entry_id}/audio")
async def hear(adventure_id: UUID, entry_id: UUID, user_id: CurrentUser, service: Service) -> Response:
    """An entry, read aloud."""
    return Response(await service.sound(user_id, adventure_id, entry_id), media_type="audio/wav")


@app.get("/adventures/{adventure_id}/entries/{entry_id}/token")
async def progress_token(adventure_id: UUID, entry_id: UUID, user_id: CurrentUser, service: Service) -> dict[str, str]:
    """A token with which <rowlock-progress> follows the job of an entry of theirs, and nothing else."""
    entry = await service.entry(user_id, adventure_id, entry_id)
    if entry.job_id is None:
        raise NotFound
    return {"token": (await tasks.tokens.for_job(entry.job_id, user=str(user_id))).text}


@app.get("/healthz")
async def health() -> dict[str, str]:
    """For the healthcheck of the container."""
    return {"status": "ok"}


def shown(story: Story) -> AdventureOut:
    """An adventure as the API shows it."""
    entries = [
        EntryOut(
            id=entry.id,
            number=entry.number,
            status=entry.status,
            job_id=entry.job_id,
            error=entry.error,
            text=entry.text,
            translation=story.translations.get(entry.id),
            words=entry.words,
            choices=[
                ChoiceOut(id=choice.id, text=choice.text, taken=story.taken.get(entry.id) == choice.id)
                for choice in story.choices.get(entry.id, ())
            ],
            has_audio=entry.id in story.heard,
        )
        for entry in story.entries
    ]
    adventure = story.adventure
    return AdventureOut(
        id=adventure.id, title=adventure.title, language=adventure.language, status=adventure.status, entries=entries
    )


# --- errors -----------------------------------------------------------------------------------------------------------


@app.exception_handler(NotFound)
async def not_found(_request: Request, _error: NotFound) -> Response:
    """404, also for what is somebody else's."""
    return _problem(HTTPStatus.NOT_FOUND, "There is no such adventure, entry or choice.")


@app.exception_handler(CannotBeDecided)
async def cannot_be_decided(_request: Request, _error: CannotBeDecided) -> Response:
    """409: the story has gone on, or is not there yet."""
    return _problem(HTTPStatus.CONFLICT, "That was decided already, or its entry is not complete.")


@app.exception_handler(ServiceFailed)
async def service_failed(_request: Request, error: ServiceFailed) -> Response:
    """502: a service that the request itself needs."""
    return _problem(HTTPStatus.BAD_GATEWAY, str(error))


def _problem(status: HTTPStatus, detail: str) -> Response:
    return Response(_Problem(detail=detail).model_dump_json(), status, media_type="application/json")


class _Problem(BaseModel):
    detail: str
