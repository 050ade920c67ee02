"""Rows to values: workflows, their steps and edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.model.state import State
from rowlock.model.stored_json import shown_object
from rowlock.model.workflow import Edge, StepView, WorkflowState, WorkflowView
from rowlock.store.rows.jobs import error_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock.store.database import Record

_COLUMNS = (
    "id", "name", "total", "open", "failed", "cancelled", "with_errors", "created_at", "finished_at", "verdict",
    "undo_error", "cancel_requested", "tenant", "submitted_by",
)  # fmt: skip


def workflow_of(row: Record, steps: Iterable[Record] = (), edges: Iterable[Record] = ()) -> WorkflowView:
    """A WorkflowView from its row, with its steps and edges where they were read."""
    key = row["unique_key"]
    return WorkflowView(
        **{name: row[name] for name in _COLUMNS},
        state=WorkflowState(row["state"]),
        # Stored behind the workflow's name, so that keys of different workflows never collide.
        unique_key=None if key is None else str(key).removeprefix(f"{row['name']}:"),
        meta=shown_object(row["meta"], "meta"),
        steps=tuple(map(step_of, steps)),
        edges=tuple(Edge(edge["upstream"], edge["downstream"], edge["needs"], edge["met"]) for edge in edges),
    )


def step_of(row: Record) -> StepView:
    """A StepView from its row."""
    values = dict(row)
    return StepView(**{**values, "state": State(values["state"]), "errors": error_of(values["errors"])})
