"""app.workflows: read, cancel, retry, signal and await workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rowlock.desk import audit
from rowlock.desk.follow.waiting import EndNotifications, until_final
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.desk.job_orders import hand_on
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.desk.workflow_halt import halt
from rowlock.errors import InvalidOption, WorkflowNotFound, WrongState
from rowlock.model import ids, page
from rowlock.model import search as grammar
from rowlock.model.access import Permission
from rowlock.model.state import State
from rowlock.model.workflow import MOST_STEPS, WorkflowPage, WorkflowState
from rowlock.store.rows.workflows import workflow_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowlock.desk.jobs import Jobs
    from rowlock.desk.signals import Signalled
    from rowlock.model.queue_pair import Wake
    from rowlock.model.workflow import WorkflowView
    from rowlock.store.database import Database, Record

_LARGEST_ID: Final = 2**63 - 1
_SORT: Final = "workflows"
_LOOKS: Final = 10_000
"""Workflows that one page examines."""
_MOST: Final = 1000
"""Of one page."""
_EDGES: Final = 20 * MOST_STEPS
"""Edges of one workflow that are read."""
_TRIES: Final = 5
_NAMED: Final = 10
"""Steps that a message names."""
_CONSEQUENCES: Final = ("dependency", "not needed")
"""Reasons of steps that were cancelled because another step ended."""


class Workflows:
    """Workflows. Ids are numbers or public ids, which begin with W."""

    def __init__(
        self,
        database: Callable[[], Database],
        wake: Wake,
        jobs: Jobs,
        guard: Guard = TRUSTED,
        end_notifications: EndNotifications | None = None,
    ) -> None:
        self._open, self._wake, self._jobs, self._guard = database, wake, jobs, guard
        self._end_notifications = end_notifications or EndNotifications(database)

    @reads(Permission.READ, scoped=True)
    async def get(self, workflow_id: int | str) -> WorkflowView:
        """The workflow as it is now, with its steps and edges; WorkflowNotFound if there is none."""
        return await self._graph(workflow_id)

    async def _graph(self, workflow_id: int | str, permission: Permission = Permission.READ) -> WorkflowView:
        number, guard = ids.parse_workflow(workflow_id), self._guard.acting_with(permission)
        async with self._open().snapshot() as source:
            found = await source.fetch("workflow_by_id", id=number, **guard.visibility)
            if not found:
                raise _not_found(workflow_id)
            steps = await source.fetch("workflow_steps_of", id=number, n=2 * MOST_STEPS)
            edges = await source.fetch("workflow_edges_of", id=number, n=_EDGES)
        return workflow_of(found[0], steps, edges)

    @reads(Permission.READ_ARGS)
    async def results(self, workflow_id: int | str, steps: Sequence[str]) -> Mapping[str, str | None]:
        """The stored results of steps by name, encoded and with their secrets: for programs, not for display."""
        number = (await self._one(workflow_id)).id
        found = await self._open().fetch("workflow_results", id=number, names=list(steps))
        shown = {row["job_id"]: row["result"] for row in found}
        await VisibleJobs(self._open, self._guard).record_reading(shown)
        return {str(row["name"]): None if row["result"] is None else str(row["result"]) for row in found}

    @reads(Permission.READ, scoped=True)
    async def list(
        self,
        *,
        states: Sequence[WorkflowState | str] | None = None,
        name: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> WorkflowPage:
        """Workflows, newest first, without steps. after: a page's `next`; an empty page with one is not the last."""
        if not 1 <= limit <= _MOST:
            message = f"limit must be from 1 to {_MOST}; got {limit}."
            raise InvalidOption(message)
        wanted = None if states is None else [_state(state) for state in states]
        hashed = grammar.digest(_SORT, name or "", *sorted(wanted or ()))
        before = _LARGEST_ID if after is None else page.decode(after, sort=_SORT, filter_hash=hashed).key
        found = await self._open().fetch(
            "workflow_page", before_id=before, most=_LOOKS, states=wanted, name=name, n=limit, **self._guard.visibility
        )
        items = [workflow_of(row) for row in found if row["id"] is not None]
        key = items[-1].id if len(items) == limit else found[0]["looked"]
        return WorkflowPage(items, None if key is None else page.Cursor(_SORT, key, hashed).encode())

    @changes(Permission.CANCEL, scoped=True)
    async def cancel(self, workflow_id: int | str, *, by: str | None = None, note: str | None = None) -> WorkflowView:
        """Cancel waiting steps, ask running ones to stop, then undo completed steps that have an undo step."""
        before = await self._one(workflow_id, Permission.CANCEL)
        (row,) = await self._open().fetch_briefly("workflow_cancel", workflow=before.id)
        if not row["asked"] and (row["final"] or not before.cancel_requested):
            message = f"Cannot cancel workflow {before.public_id}: it is {row['state']}; only a running one can be."
            raise WrongState(message)
        await self._halt(before.id)
        if row["asked"]:
            await self._record("cancel", before, {"state": "cancelled"}, by, note)
        return await self._graph(before.id, Permission.CANCEL)

    async def _halt(self, number: int) -> None:
        """End its live steps in batches; if this process dies, upkeep goes on."""
        database = self._open()
        ended = True
        while ended:
            answers = await halt(database, number)
            ended = any(row["ids"] for row in answers)
            for row in answers:
                await hand_on(database, self._wake, row)

    @changes(Permission.RETRY, scoped=True)
    async def retry(
        self, workflow_id: int | str, step: str | None = None, *, by: str | None = None, note: str | None = None
    ) -> WorkflowView:
        """Run a step and the steps behind it again; without a step, the failed ones."""
        view = await self._graph(workflow_id, Permission.RETRY)
        chosen = [step] if step is not None else _failed(view)
        if not chosen:
            message = f"Cannot retry workflow {view.public_id}: it is {view.state}, and no step of it has failed."
            raise WrongState(message)
        self._guard.name_of(by)
        again = 0
        for name in chosen:
            again += await self._retry(view, name, by, note, alone=step is not None)
        await self._record("retry", view, {"steps": chosen, "jobs": again}, by, note)
        return await self._graph(view.id, Permission.RETRY)

    async def _retry(self, view: WorkflowView, step: str, by: str | None, note: str | None, *, alone: bool) -> int:
        for _ in range(_TRIES):
            found = await self._open().fetch(
                "workflow_retry", workflow=view.id, step=step, by_whom=self._guard.name_of(by), note=note
            )
            if found[0]["what"] != "again":
                break
        if found[0]["what"] == "retried":
            due = [row for row in found if row["state"] == State.QUEUED]
            self._wake(((row["kind"], row["priority"], row["share"]), row["run_after"]) for row in due)
            return len(found)
        if found[0]["what"] == "waiting" and not alone:
            return 0  # it is behind another step that is retried
        raise _refusal(view, step, found[0])

    @changes(Permission.EDIT, scoped=True)
    async def signal(
        self,
        workflow_id: int | str,
        step: str,
        name: str,
        payload: object = None,
        *,
        by: str | None = None,
        note: str | None = None,
    ) -> Signalled:
        """Send a signal to the job of a step, also before the step waits for it or runs."""
        view = await self._one(workflow_id, Permission.EDIT)
        found = await self._open().fetch("workflow_jobs", id=view.id, names=[step])
        if not found:
            message = f"There is no step {step!r} in workflow {view.public_id}."
            raise WorkflowNotFound(message)
        return await self._jobs.signal(found[0]["job_id"], name, payload, by=by, note=note)

    @reads(Permission.READ, scoped=True)
    async def wait(self, workflow_id: int | str, *, timeout: float | None = None) -> WorkflowView:
        """Wait until the workflow is final, undo steps included. After WaitTimeout it goes on."""
        number = ids.parse_workflow(workflow_id)
        # Waiters of a workflow are stored under its negative number, as jobs have positive ones.
        await until_final(
            self._open(), self._end_notifications, -number, lambda: self._one(number), timeout=timeout, what="Workflow"
        )
        return await self.get(number)

    async def _one(self, workflow_id: int | str, permission: Permission = Permission.READ) -> WorkflowView:
        """The workflow, if the principal holds the permission for each of its steps."""
        number, guard = ids.parse_workflow(workflow_id), self._guard.acting_with(permission)
        found = await self._open().fetch("workflow_by_id", id=number, **guard.visibility)
        if not found:
            raise _not_found(workflow_id)
        return workflow_of(found[0])

    async def _record(
        self, verb: str, before: WorkflowView, after: Mapping[str, Any], by: str | None, note: str | None
    ) -> None:
        await audit.record(
            self._open(),
            self._guard,
            f"workflow.{verb}",
            f"workflow:{before.public_id}",
            before={"state": before.state},
            after=after,
            by=by,
            note=note,
        )


def _failed(view: WorkflowView) -> list[str]:
    """Steps that failed for a reason of their own, in order."""
    return [
        step.name
        for step in view.steps
        if step.undoes is None
        and (
            step.state in (State.FAILED, State.EXPIRED)
            or (step.state is State.CANCELLED and (step.errors or {}).get("reason") not in _CONSEQUENCES)
        )
    ]


def _refusal(view: WorkflowView, step: str, row: Record) -> Exception:
    names = [one.name for one in view.steps]
    there = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
    why = {
        "unknown": "its job was removed" if step in names else f"there is no such step; there are {there}",
        "waiting": "it has not ended, so it will run anyway",
        "live": f"behind it, {row['name']!r} has not ended; wait for that one, or cancel it first",
        "compensated": "what its steps did is being undone, or was; enqueue the workflow anew",
        "taken": "another workflow with its unique_key is under way",
        "again": "it grows at this moment; try again",
    }.get(row["what"], str(row["what"]))
    named = f"Cannot retry step {step!r} of workflow {view.public_id}"
    return _not_found(view.public_id) if row["what"] == "missing" else WrongState(f"{named}: {why}.")


def _state(state: WorkflowState | str) -> str:
    try:
        return WorkflowState(state)
    except ValueError:
        message = f"There is no state {str(state)!r} of workflows; there are {', '.join(WorkflowState)}."
        raise InvalidOption(message) from None


def _not_found(workflow_id: int | str) -> WorkflowNotFound:
    return WorkflowNotFound(
        f"There is no workflow {workflow_id}. Finished ones are removed with their jobs, after 7 days by default."
    )
