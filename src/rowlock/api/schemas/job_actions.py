"""Bodies of orders for one job or for many, and the bulk operation that carries an order out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, Body, doc
from rowlock.api.schemas.fields import CountAnswer, PriorityNumber
from rowlock.api.schemas.jobs import JobAnswer, NoteField
from rowlock.model.operation import Action, Operation

ActionField = Annotated[Action, doc("What is done to each job.", "retry")]
FILTER_HASH = "b3c9f1"


class Order(Body):
    """What a person may add to an order."""

    note: NoteField = None


class CancelOrder(Order):
    """How a job is cancelled."""

    stop: Annotated[
        bool, doc("True: end a running job now and refuse its late result; false: ask its handler to stop.", False)
    ] = False


class PriorityOrder(Order):
    """A new priority."""

    priority: Annotated[PriorityNumber, doc("Priority from -100 to 100; higher runs first.", 10)]


class Signal(Body):
    """A signal for a job that waits, or will wait, for it."""

    payload: Annotated[Any, doc("JSON that ctx.wait_for() returns in the handler.", {"accepted": True})] = None
    note: NoteField = None


class SignalledAnswer(JobAnswer):
    """The job after a signal."""

    sent: Annotated[bool, doc("False: a signal of that name came before, and the first one counts.", True)]


class BulkOrder(Body):
    """One order for many jobs, named by `search` or `ids`.

    Send it with dry_run first; then with the filter_hash of that answer and with expected_max.
    """

    action: ActionField
    search: Annotated[
        str | None,
        doc("Search that finds the jobs; null: ids name them.", "state:failed kind:ingest*", max_length=2000),
    ] = None
    ids: Annotated[
        list[str] | None, doc("Ids of the jobs; null: search finds them.", [fields.JOB_ID], max_length=10_000)
    ] = None
    priority: Annotated[PriorityNumber | None, doc("New priority, for the action priority.", 10)] = None
    dry_run: Annotated[bool, doc("True: count the jobs and change none.", True)] = False
    filter_hash: Annotated[
        str | None, doc("filter_hash of the dry run; null only with dry_run.", FILTER_HASH, max_length=200)
    ] = None
    expected_max: Annotated[
        int | None,
        doc("Touch nothing when there are more jobs than this; null only with dry_run.", 100, ge=0, lt=2**31),
    ] = None
    note: NoteField = None


class OperationAnswer(Answer):
    """A bulk order: its dry run, or how far it has come."""

    id: Annotated[str | None, doc("Id of the operation; null: a dry run.", "12")]
    action: ActionField
    state: Annotated[
        Literal["preview", "running", "completed", "failed", "cancelled"],
        doc("preview is a dry run; the last three are final.", "running"),
    ]
    filter_hash: Annotated[str, doc("Names the jobs of this order; the order itself must repeat it.", FILTER_HASH)]
    search: Annotated[str | None, doc("Search that finds the jobs; null: ids name them.", "state:failed kind:ingest*")]
    priority: Annotated[int | None, doc("New priority; null: another action.", 10)]
    count: Annotated[
        CountAnswer | None,
        doc("Jobs found by the dry run or at the start; null: unknown.", {"value": 84, "exact": True}),
    ]
    samples: Annotated[list[JobAnswer], doc("Up to five of these jobs.")]
    expected_max: Annotated[int | None, doc("Largest number of jobs allowed; null: a dry run.", 100)]
    done: Annotated[int, doc("Jobs that were changed.", 40)]
    skipped: Annotated[int, doc("Jobs whose state did not allow it or changed meanwhile.", 2)]
    failed: Annotated[int, doc("Jobs whose batch the database refused.", 0)]
    error: Annotated[str | None, doc("Why the operation failed; null: it has not.", None)]
    by: fields.ByOrNull
    note: fields.NoteOrNull
    created_at: Annotated[datetime | None, doc("When the order was given; null: a dry run.", fields.INSTANT)]
    finished_at: fields.FinishedAt

    @classmethod
    def of(cls, operation: Operation) -> OperationAnswer:
        """From the desk's value."""
        values = {name: getattr(operation, name) for name in cls.model_fields}
        made = {
            "id": None if operation.id is None else str(operation.id),
            "count": None if operation.count is None else CountAnswer.of(operation.count),
            "samples": [JobAnswer.of(job) for job in operation.samples],
        }
        return cls.model_validate(values | made)
