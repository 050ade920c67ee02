"""The web application of a pod: submit, Jobs, Review ontologies; and the pod's worker."""

from __future__ import annotations

import logging
import os
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, abort, redirect, render_template, request, url_for
from pydantic import ValidationError
from sqlalchemy import select

from examples.ontology.generator import OntologyRequest, Source
from examples.ontology.ontologies import Ontology, create_tables, sessions
from examples.ontology.tasks import (
    EXECUTOR_MAX_WORKERS,
    LANE,
    MAX_JOB_ATTEMPTS,
    HarnessRequest,
    examine,
    generate,
    tasks,
)
from rowlock import InvalidId, JobNotFound, WrongState

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from rowlock import Enqueued, Job

pages = Blueprint("pages", __name__)


def create_app() -> Flask:
    """The application that gunicorn serves, once per pod. DISABLE_TASK_MANAGER=true: without a worker."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    host = Flask(__name__)
    host.register_blueprint(pages)
    host.register_error_handler(ValidationError, _refused)
    host.register_error_handler(JobNotFound, _not_found)
    host.register_error_handler(InvalidId, _not_found)
    host.register_error_handler(WrongState, _conflict)
    create_tables(tasks)
    if os.environ.get("DISABLE_TASK_MANAGER", "").lower() != "true":
        tasks.start_worker(lanes={LANE: EXECUTOR_MAX_WORKERS}, name=os.environ.get("POD_NAME"))
    return host


def current_user() -> str:
    """The person whom the single sign-on in front of the pods names; on one's own machine there is none."""
    return request.headers.get("X-Auth-Request-User", "local")


@pages.before_request
def refuse_other_sites() -> None:
    """Refuse changes that a page of another site sends with a visitor's browser."""
    if request.method == "POST" and request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        abort(HTTPStatus.FORBIDDEN)


@pages.get("/")
def home() -> Response:
    """Lead to the Jobs page."""
    return redirect(url_for("pages.jobs"))


# --- submit: a job id at once -----------------------------------------------------------------------------------------


@pages.post("/ontology/submit")
def submit_ontology() -> Any:  # noqa: ANN401 - one of Flask's answers
    """Queue a generation. A form has one source per paragraph, separated by empty lines."""
    if request.is_json:
        wanted = OntologyRequest.model_validate(request.get_json())
    else:
        parts = [part.strip() for part in request.form.get("text", "").replace("\r", "").split("\n\n") if part.strip()]
        sources = [Source(name=f"part {number}", text=part) for number, part in enumerate(parts, 1)]
        wanted = OntologyRequest(name=request.form.get("name", ""), sources=sources)
    return _accepted(generate.options(submitted_by=current_user()).enqueue_sync(wanted))


@pages.post("/harness/submit")
def submit_harness() -> Any:  # noqa: ANN401 - as above
    """Queue an examination. A form has one expected concept per line."""
    if request.is_json:
        wanted = HarnessRequest.model_validate(request.get_json())
    else:
        lines = [line.strip() for line in request.form.get("expected", "").splitlines() if line.strip()]
        wanted = HarnessRequest(ontology=request.form.get("ontology", ""), expected=lines)
    return _accepted(examine.options(submitted_by=current_user()).enqueue_sync(wanted))


def _accepted(job: Enqueued[Any]) -> Any:  # noqa: ANN401 - as above
    if not request.is_json:
        return redirect(url_for("pages.job", job_id=job.public_id), HTTPStatus.SEE_OTHER)
    where = url_for("pages.job_status", job_id=job.public_id)
    return {"job_id": job.public_id}, HTTPStatus.ACCEPTED, {"Location": where}


# --- jobs -------------------------------------------------------------------------------------------------------------


@pages.get("/jobs")
def jobs() -> str:
    """The newest jobs; the running ones with their live progress."""
    found = tasks.sync.jobs.search(sort="newest", limit=50).items
    running = [(job, _token_of(job)) for job in found if job.state == "running"]
    return render_template("jobs.html", jobs=found, running=running, **_shared())


@pages.get("/jobs.json")
def jobs_status() -> list[dict[str, object]]:
    """What the Jobs page shows, for programs."""
    return [_status_of(job) for job in tasks.sync.jobs.search(sort="newest", limit=50).items]


@pages.get("/jobs/<job_id>")
def job(job_id: str) -> str:
    """One job, with its progress, its earlier attempts and its log."""
    found = tasks.sync.jobs.get(job_id)
    history = tasks.sync.jobs.history(found.id)
    lines = tasks.sync.jobs.logs(found.id, last=True, limit=50)
    return render_template("job.html", job=found, token=_token_of(found), history=history, lines=lines, **_shared())


@pages.get("/jobs/<job_id>/status")
def job_status(job_id: str) -> dict[str, object]:
    """State, owner and progress of one job, for programs that poll it."""
    return _status_of(tasks.sync.jobs.get(job_id))


@pages.post("/jobs/<job_id>/stop")
def stop_job(job_id: str) -> Any:  # noqa: ANN401 - as above
    """End a job now, waiting or running; what its handler still writes is refused."""
    stopped = tasks.sync.jobs.stop(job_id, by=current_user())
    if request.accept_mimetypes.best == "application/json":
        return _status_of(stopped)
    return redirect(url_for("pages.jobs"), HTTPStatus.SEE_OTHER)


@pages.get("/jobs/<job_id>/token")
def job_token(job_id: str) -> dict[str, str]:
    """A new token for <rowlock-progress>, when that of the page has expired."""
    return {"token": _token_of(tasks.sync.jobs.get(job_id))}


def _token_of(found: Job) -> str:
    return tasks.sync.tokens.for_job(found.id, user=current_user(), show=["error"]).text


def _status_of(found: Job) -> dict[str, object]:
    """A job in the words of the design: attempt_count is what grows with every claim."""
    return {
        "job_id": found.public_id,
        "kind": found.kind,
        "status": found.state,
        "claimed_by": found.worker,
        "claimed_at": found.claimed_at and found.claimed_at.isoformat(),
        "last_progress_at": found.last_progress_at and found.last_progress_at.isoformat(),
        "attempt_count": found.runs,
        "result": found.result,
        "error": found.errors,
    }


# --- review -----------------------------------------------------------------------------------------------------------


@pages.get("/review")
def review() -> str:
    """The newest ontologies, and what people think of them."""
    with sessions(tasks)() as session:
        found = session.scalars(select(Ontology).order_by(Ontology.created_at.desc()).limit(50)).all()
    return render_template("review.html", ontologies=found, **_shared())


@pages.post("/review/<job_id>")
def give_verdict(job_id: str) -> Response:
    """Accept or reject an ontology."""
    verdict = request.form.get("verdict")
    if verdict not in ("accepted", "rejected"):
        abort(HTTPStatus.UNPROCESSABLE_ENTITY, f"verdict is accepted or rejected; got {verdict!r}")
    with sessions(tasks)() as session:
        ontology = session.get(Ontology, job_id)
        if ontology is None:
            abort(HTTPStatus.NOT_FOUND, f"There is no ontology of job {job_id}.")
        ontology.verdict, ontology.reviewed_by = verdict, current_user()
        session.commit()
    return redirect(url_for("pages.review"), HTTPStatus.SEE_OTHER)


def _shared() -> dict[str, object]:
    """What every page needs. api: the REST API of Rowlock, from which the page loads <rowlock-progress>."""
    api = os.environ.get("ROWLOCK_API", "http://127.0.0.1:8000/api/v1")
    return {"api": api, "pod": os.environ.get("POD_NAME", "this pod"), "max_attempts": MAX_JOB_ATTEMPTS}


# --- errors -----------------------------------------------------------------------------------------------------------


def _refused(error: ValidationError) -> tuple[dict[str, object], HTTPStatus]:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return {"error": "The request does not fit.", "details": details}, HTTPStatus.UNPROCESSABLE_ENTITY


def _not_found(error: JobNotFound | InvalidId) -> tuple[dict[str, object], HTTPStatus]:
    return {"error": str(error)}, HTTPStatus.NOT_FOUND


def _conflict(error: WrongState) -> tuple[dict[str, object], HTTPStatus]:
    return {"error": str(error)}, HTTPStatus.CONFLICT
