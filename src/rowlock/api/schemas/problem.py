"""The body of every answer that is no success (RFC 9457)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel

from rowlock.api.problem_codes import CODES
from rowlock.api.schemas.base import doc


class FieldErrorBody(BaseModel):
    """One part of a request that does not fit."""

    pointer: Annotated[str, doc("JSON pointer into the body, or the name of the parameter.", "#/priority")]
    detail: Annotated[str, doc("What is wrong with it.", "Input should be less than or equal to 100")]


class ProblemBody(BaseModel):
    """A problem as RFC 9457 defines it. `code` is stable; members after `request_id` are absent unless they apply."""

    type: Annotated[str, doc("URI of the kind of problem.", "urn:rowlock:problem:job-not-found")]
    title: Annotated[str, doc("The kind of problem in a few words.", "There is no such job")]
    status: Annotated[int, doc("The HTTP status.", 404)]
    detail: Annotated[str, doc("What went wrong and what to do.", "There is no job 142C-K0DF-EBQW-B6.")]
    instance: Annotated[str, doc("Path of the request.", "/api/v1/jobs/142C-K0DF-EBQW-B6")]
    code: Annotated[str, doc("Stable code for programs.", "job-not-found", json_schema_extra={"enum": sorted(CODES)})]
    request_id: Annotated[str | None, doc("Id of the request in logs and audit; null: none was given.", "7d1f0c")]
    errors: Annotated[list[FieldErrorBody] | None, doc("Every part of the request that does not fit.")] = None
    current_state: Annotated[str | None, doc("State of the job that does not allow the order.", "completed")] = None
    allowed: Annotated[list[str] | None, doc("Orders that this state allows.", ["retry"])] = None
    permission: Annotated[str | None, doc("Permission that is missing.", "jobs:cancel")] = None
    current: Annotated[dict[str, Any] | None, doc("What it is now, when it changed meanwhile.", {"version": 4})] = None
    job_id: Annotated[str | None, doc("Public id of the job that holds the key.", "142C-K0DF-EBQW-B6")] = None
    position: Annotated[int | None, doc("Character of the search at which it is wrong.", 7)] = None
    suggestion: Annotated[str | None, doc("What may have been meant.", "state:failed")] = None
