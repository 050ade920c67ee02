"""The web application: projects, builds and editions of organisations, the queue API, and a page to see them on."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
from collections.abc import AsyncIterator  # noqa: TC003 - FastAPI reads the annotations
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader
from pydantic import BaseModel, Field
from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.docverse.access import Member, MemberOf  # noqa: TC001 - as above
from examples.docverse.queue_jobs import QueueJob, shown
from examples.docverse.tables import NOW, Build, Edition, Organization, Project, create_tables, sessions
from examples.docverse.tasks import backend, process_build, reassign_edition, refs_of, sync_dashboards, tasks
from rowlock import InvalidId, InvalidSearch, Job, JobNotFound, WrongState

SECRET: Final = os.environ.get("GITHUB_WEBHOOK_SECRET", "")
pages = Environment(loader=FileSystemLoader(Path(__file__).with_name("templates")), autoescape=True)
routes = APIRouter(prefix="/orgs/{org}")
"""What belongs to one organisation; `access.member` decides who may come in."""
others = APIRouter()
_Slug = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]


@contextlib.asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Open the database, make the tables and the organisations of LOCAL_ORGANIZATIONS. Workers run elsewhere."""
    async with tasks:
        await create_tables(tasks)
        async with sessions(tasks)() as session, session.begin():
            have = set(await session.scalars(select(Organization.slug)))
            for slug in filter(None, os.environ.get("LOCAL_ORGANIZATIONS", "").split(",")):
                if slug not in have:
                    session.add(Organization(slug=slug))
        yield


async def get_session() -> AsyncIterator[AsyncSession]:
    """A transaction for the request; it is committed before the answer is sent."""
    async with sessions(tasks)() as session, session.begin():
        yield session


Session = Annotated[AsyncSession, Depends(get_session, scope="function")]


# --- projects, builds, editions ---------------------------------------------------------------------------------------


class NewProject(BaseModel):
    """What makes a project."""

    slug: _Slug
    repository: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    template_repository: str | None = None
    copy_mode: bool = False


class NewBuild(BaseModel):
    """What begins a build."""

    git_ref: str = Field(min_length=1, max_length=200, pattern=r"^[\w][\w./-]*$")


class NewEdition(BaseModel):
    """An edition that a person makes: it shows the builds of a git ref, or of a stream of versions such as 2 or 2.1."""

    slug: str = Field(pattern=r"^\w[\w.-]{0,99}$")
    tracking: Literal["git_ref", "semver_major", "semver_minor"] = "git_ref"
    tracked: str = Field(min_length=1, max_length=200)


class Uploaded(BaseModel):
    """The client's signal that every object is in the store."""

    status: Literal["uploaded"]


class Reassignment(BaseModel):
    """Another build for an edition."""

    build: str


@routes.post("/projects", status_code=201)
async def create_project(wanted: NewProject, who: MemberOf, session: Session) -> dict[str, str]:
    """A project of the organisation."""
    org = await _organization(session, who)
    taken = select(Project).where(Project.org_id == org.id, Project.slug == wanted.slug)
    if (await session.scalars(taken)).first():
        raise HTTPException(409, f"There is a project {wanted.slug} already.")
    session.add(Project(org_id=org.id, **wanted.model_dump()))
    return {"slug": wanted.slug}


@routes.post("/projects/{project}/builds", status_code=201)
async def create_build(project: str, wanted: NewBuild, who: MemberOf, session: Session) -> dict[str, str]:
    """A build; the client uploads its objects below `upload_url`."""
    found = await _project(session, who, project)
    build = Build(project_id=found.id, git_ref=wanted.git_ref, prefix="")
    session.add(build)
    await session.flush()
    build.prefix = f"{who.org}/{found.slug}/__builds/{build.public_id}/"
    store = os.environ.get("SERVICES_URL", "http://127.0.0.1:8104")
    return {"id": build.public_id, "upload_url": f"{store}/objects/{build.prefix}"}


@routes.patch("/projects/{project}/builds/{build}", status_code=202)
async def upload_complete(
    project: str, build: str, wanted: Uploaded, who: MemberOf, session: Session
) -> dict[str, str]:
    """The upload is complete: one background job does the rest. Build and job are committed together."""
    found = await _project(session, who, project)
    one = await _build(session, found, build)
    if one.status == "pending":
        one.status = wanted.status
    once = process_build.options(
        session=session,
        tenant=who.org,
        submitted_by=who.name,
        refs=refs_of(found.id, one.id),
        idempotency_key=f"build:{one.public_id}",
    )
    return _queued(who, (await once.enqueue(one.id)).public_id)


@routes.get("/projects/{project}/builds")
async def list_builds(project: str, who: MemberOf, session: Session) -> list[dict[str, Any]]:
    """The newest builds of a project."""
    found = await _project(session, who, project)
    mine = select(Build).where(Build.project_id == found.id).order_by(Build.id.desc()).limit(100)
    return [{"id": b.public_id, "git_ref": b.git_ref, "status": b.status} for b in await session.scalars(mine)]


@routes.get("/projects/{project}/editions")
async def list_editions(project: str, who: MemberOf, session: Session) -> list[dict[str, Any]]:
    """The editions of a project, each with its build."""
    found = await _project(session, who, project)
    return await _editions(session, found)


@routes.post("/projects/{project}/editions", status_code=201)
async def create_edition(project: str, wanted: NewEdition, who: MemberOf, session: Session) -> dict[str, str]:
    """An edition beside those that builds make by themselves."""
    found = await _project(session, who, project)
    if (await session.scalars(_named(found, wanted.slug))).first():
        raise HTTPException(409, f"There is an edition {wanted.slug} already.")
    session.add(Edition(project_id=found.id, **wanted.model_dump()))
    return {"slug": wanted.slug}


@routes.patch("/projects/{project}/editions/{edition}", status_code=202)
async def reassign(project: str, edition: str, wanted: Reassignment, who: MemberOf, session: Session) -> dict[str, str]:
    """Give an edition another build, an older one too: a rollback."""
    found = await _project(session, who, project)
    build = await _build(session, found, wanted.build)
    one = (await session.scalars(_named(found, edition))).first()
    if one is None:
        raise HTTPException(404, f"There is no edition {edition}.")
    order = reassign_edition.options(
        session=session, tenant=who.org, submitted_by=who.name, refs=refs_of(found.id, build.id)
    )
    ordered_at = (await session.scalars(select(NOW))).one()  # of the clock that dates the builds
    return _queued(who, (await order.enqueue(one.id, build.id, ordered_at)).public_id)


def _queued(who: Member, job: str) -> dict[str, str]:
    return {"job": job, "queue_url": f"/orgs/{who.org}/queue/{job}"}


# --- the queue --------------------------------------------------------------------------------------------------------


@routes.get("/queue")
async def list_jobs(who: MemberOf, search: str = "") -> list[QueueJob]:
    """The newest jobs of the organisation. search: in Rowlock's words, such as phase:editions ref.project:7."""
    return await shown(tasks, (await tasks.desk(who.principal).jobs.search(search, limit=100)).items)


@routes.get("/queue/{job}")
async def get_job(job: str, who: MemberOf) -> QueueJob:
    """A job with its progress; 404 for one of another organisation, and for one that retention has removed."""
    found = await shown(tasks, [await tasks.desk(who.principal).jobs.get(job)])
    if not found:
        raise HTTPException(404, f"There is no job {job}.")
    return found[0]


@routes.post("/queue/{job}/retry", status_code=202)
async def retry_job(job: str, who: MemberOf) -> QueueJob:
    """Try a job again; of one that completed with errors, the failed editions only."""
    jobs = tasks.desk(who.principal).jobs
    partly = (await jobs.get(job)).state == "completed_with_errors"
    return (await shown(tasks, [await jobs.retry(job, items="failed" if partly else None)]))[0]


@routes.post("/queue/{job}/cancel", status_code=202)
async def cancel_job(job: str, who: MemberOf) -> QueueJob:
    """Cancel a waiting job, or ask a running one to stop."""
    return (await shown(tasks, [await tasks.desk(who.principal).jobs.cancel(job)]))[0]


@routes.get("/queue/{job}/backend")
async def ask_backend(job: str, who: MemberOf) -> dict[str, Any]:
    """What the carrier knows of a job's newest message, for diagnosis only: the table is the truth."""
    number = (await tasks.desk(who.principal).jobs.get(job)).backend_job_id
    if number is None:
        return {"backend_job_id": None, "metadata": None, "result": None}
    metadata, result = await backend.get_job_metadata(number), await backend.get_job_result(number)
    return {"backend_job_id": number, "metadata": json.loads(json.dumps(metadata, default=str)), "result": result}


@routes.get("/queue/{job}/token")
async def job_token(job: str, who: MemberOf) -> dict[str, str]:
    """A token for <rowlock-progress> of a job that this person may see."""
    return {"token": await _token(who, await tasks.desk(who.principal).jobs.get(job))}


# --- GitHub -----------------------------------------------------------------------------------------------------------


@others.post("/github/webhook", status_code=202)
async def template_pushed(
    request: Request, session: Session, x_hub_signature_256: Annotated[str, Header()] = ""
) -> dict[str, int]:
    """A push to a repository of templates: a job for every organisation whose dashboards are made of it."""
    body = await request.body()
    expected = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    if not SECRET or not hmac.compare_digest(expected, x_hub_signature_256):
        raise HTTPException(401, "The signature does not fit.")
    repository = str(json.loads(body)["repository"]["full_name"])
    projects = select(Project.org_id).where(Project.template_repository == repository)
    concerned = (Organization.template_repository == repository) | Organization.id.in_(projects)
    orgs = (await session.scalars(select(Organization).where(concerned))).all()
    for org in orgs:
        await sync_dashboards.options(session=session, tenant=org.slug).enqueue(repository, org.id)
    return {"jobs": len(orgs)}


# --- the page ---------------------------------------------------------------------------------------------------------


@others.get("/", include_in_schema=False)
async def home() -> RedirectResponse:
    """Lead to the first organisation."""
    return RedirectResponse(f"/orgs/{os.environ.get('LOCAL_ORGANIZATIONS', '').partition(',')[0]}")


@routes.get("", response_class=HTMLResponse, include_in_schema=False)
async def organization_page(who: MemberOf, session: Session) -> str:
    """The projects of an organisation with builds, editions and the progress of jobs."""
    org = await _organization(session, who)
    mine = select(Project).where(Project.org_id == org.id).order_by(Project.slug)
    projects = [await _of_page(session, who, project) for project in (await session.scalars(mine)).all()]
    api = os.environ.get("ROWLOCK_API", "http://127.0.0.1:8000/api/v1")
    return pages.get_template("organization.html").render(who=who, projects=projects, api=api)


async def _of_page(session: AsyncSession, who: Member, project: Project) -> dict[str, object]:
    """A project on the page: its editions, newest builds, and newest jobs, each with a token for its progress."""
    builds = select(Build).where(Build.project_id == project.id).order_by(Build.id.desc()).limit(8)
    jobs = await tasks.desk(who.principal).jobs.list(refs={"project": project.id}, limit=8)
    return {
        "project": project,
        "editions": await _editions(session, project),
        "builds": (await session.scalars(builds)).all(),
        "jobs": [(job, await _token(who, job)) for job in jobs],
    }


async def _token(who: Member, job: Job) -> str:
    return (await tasks.tokens.for_job(job.id, user=who.name, show=["items", "error"])).text


# --- what the routes share --------------------------------------------------------------------------------------------


async def _organization(session: AsyncSession, who: Member) -> Organization:
    found = (await session.scalars(select(Organization).where(Organization.slug == who.org))).first()
    if found is None:
        raise HTTPException(404, f"There is no organisation {who.org}.")
    return found


async def _project(session: AsyncSession, who: Member, slug: str) -> Project:
    org = await _organization(session, who)
    found = (await session.scalars(select(Project).where(Project.org_id == org.id, Project.slug == slug))).first()
    if found is None:
        raise HTTPException(404, f"There is no project {slug}.")
    return found


def _named(project: Project, edition: str) -> Select[Edition]:
    return select(Edition).where(Edition.project_id == project.id, Edition.slug == edition)


async def _build(session: AsyncSession, project: Project, public_id: str) -> Build:
    named = select(Build).where(Build.project_id == project.id, Build.public_id == public_id)
    found = (await session.scalars(named)).first()
    if found is None or found.date_deleted is not None:
        raise HTTPException(404, f"There is no build {public_id}.")
    return found


async def _editions(session: AsyncSession, project: Project) -> list[dict[str, Any]]:
    found = await session.execute(
        select(Edition, Build.public_id)
        .outerjoin(Build, Build.id == Edition.build_id)
        .where(Edition.project_id == project.id, Edition.date_deleted.is_(None))
        .order_by(Edition.slug)
    )
    return [
        {"slug": edition.slug, "build": build, "tracking": edition.tracking, "ref_missing": edition.ref_missing}
        for edition, build in found
    ]


async def _not_found(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 404)


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 422)


async def _conflict(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 409)


async def refuse_other_sites(request: Request) -> None:
    """Refuse changes that a page of another site sends with a visitor's browser."""
    if request.method != "GET" and request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "This request came from another site.")


host = FastAPI(title="Docverse", lifespan=lifespan, dependencies=[Depends(refuse_other_sites)])
host.include_router(routes)
host.include_router(others)
host.add_exception_handler(JobNotFound, _not_found)
host.add_exception_handler(InvalidId, _not_found)
host.add_exception_handler(InvalidSearch, _refused)
host.add_exception_handler(WrongState, _conflict)
