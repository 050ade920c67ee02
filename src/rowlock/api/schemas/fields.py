"""Fields that recur in several bodies: each type, description and example is written once, here."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints

from rowlock.api.schemas.base import Answer, DurationInput, doc
from rowlock.model import ids
from rowlock.model.count import Count as CountValue
from rowlock.model.state import State

JOB_ID: Final = ids.encode(1)
WORKFLOW_ID: Final = ids.encode_workflow(1)
BACKEND_ID: Final = "4f1d5c8e2b7a4c0e9d6a3f5b8c7e1d20"
INSTANT: Final = "2026-03-01T09:30:00Z"
LATER: Final = "2026-03-01T09:31:12Z"
CURSOR: Final = "eyJrIjo0Mn0"
ERROR: Final = {"reason": "failed", "type": "ConnectionError", "message": "mail.example.com refused the connection"}
STORABLE: Final = r"^[^\x00]*$"
"""PostgreSQL stores every text without a NUL character."""

# --- Texts of requests ------------------------------------------------------------------------------------------------

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=STORABLE)]
NoteText = Annotated[str, StringConstraints(max_length=10_000, pattern=STORABLE)]
PriorityNumber = Annotated[int, Field(ge=-100, le=100)]
Duration = Annotated[float, DurationInput()]
TagList = Annotated[list[Text], Field(max_length=100)]

# --- Jobs in answers --------------------------------------------------------------------------------------------------

PublicId = Annotated[str, doc("Public id of the job.", JOB_ID)]
Kind = Annotated[str, doc("Kind of the job: the stable name of the function that runs it.", "send_invoice")]
JobState = Annotated[State, doc("State of the job.", "queued")]
Priority = Annotated[int, doc("Priority from -100 to 100; higher runs first.", 10)]
Attempt = Annotated[int, doc("Number of the current or last attempt; 0 before the first.", 1)]
MaxAttempts = Annotated[int, doc("How many attempts the job has before it fails for good.", 5)]
Losses = Annotated[
    int, doc("Times the job was lost: its worker or child process died or fell silent, or it made no progress.", 0)
]
Runs = Annotated[int, doc("Times a worker claimed the job, this run included; it only grows, unlike attempt.", 1)]
LaneOrNull = Annotated[str | None, doc("Lane that claimed the job last; null before the first claim.", "reports")]
WorkerOrNull = Annotated[str | None, doc("Name of the worker that claimed the job last; null: none.", "web-1:4711")]
TenantOrNull = Annotated[str | None, doc("Tenant that it belongs to; null: none.", "acme")]
SubmitterOrNull = Annotated[str | None, doc("Subject that submitted it; null: unknown.", "ada@example.com")]
UniqueKeyOrNull = Annotated[str | None, doc("Key that no two live ones share; null: none.", "invoice:42")]
Tags = Annotated[list[str], doc("Tags of the job.", ["nightly"])]
Refs = Annotated[dict[str, Any], doc("References to your own objects, by name; searchable.", {"project": 7})]
Meta = Annotated[dict[str, Any], doc("Free JSON that Rowlock stores and never reads.", {"source": "web"})]
Args = Annotated[dict[str, Any], doc("Arguments by name; secret ones are masked as •••.", {"order_id": 42})]
ErrorOrNull = Annotated[dict[str, Any] | None, doc("Reason, type and message of the error; null: none.", ERROR)]
CancelRequested = Annotated[bool, doc("Whether a running job was asked to stop.", False)]
WorkflowIdField = Annotated[str, doc("Public id of the workflow.", WORKFLOW_ID)]

# --- Instants in answers ----------------------------------------------------------------------------------------------

CreatedAt = Annotated[datetime, doc("When it was created.", INSTANT)]
RunAfter = Annotated[datetime, doc("The job does not start before this instant.", INSTANT)]
ClaimedAt = Annotated[datetime | None, doc("When a worker claimed the job last; null: never.", INSTANT)]
FinishedAt = Annotated[datetime | None, doc("When it reached its final state; null: it has not.", LATER)]
UpdatedAt = Annotated[datetime | None, doc("When it was last changed; null: never.", INSTANT)]
Version = Annotated[int, doc("Number of the version; every change raises it, and the ETag names it.", 3)]

# --- Pages and people -------------------------------------------------------------------------------------------------

NextCursor = Annotated[str | None, doc("Cursor of the next page; null: this is the last one.", CURSOR)]
NoteOrNull = Annotated[str | None, doc("Note of the person who gave the order; null: none.", "requested by finance")]
ByOrNull = Annotated[str | None, doc("Subject of the person who gave the order; null: unknown.", "ada@example.com")]


class CountAnswer(Answer):
    """A number of rows."""

    value: Annotated[int, doc("How many were counted.", 1200)]
    exact: Annotated[bool, doc("False: counting stopped there, so there are at least that many.", True)]

    @classmethod
    def of(cls, count: CountValue) -> CountAnswer:
        """From the desk's value."""
        return cls(value=count.value, exact=count.exact)
