"""Details of one job: earlier attempts, items, log lines, and why it is not running."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, doc, seconds
from rowlock.api.schemas.fields import INSTANT, LATER
from rowlock.api.schemas.jobs import JobAnswer
from rowlock.model import ids
from rowlock.model.progress import ItemState

if TYPE_CHECKING:
    from rowlock.model.explanation import Explanation, QueuePosition
    from rowlock.model.job import Act, Attempt, Relative
    from rowlock.model.progress import LogLine


class AttemptAnswer(Answer):
    """An earlier run of the job; the current or last one is in the job itself."""

    attempt: Annotated[int | None, doc("Number of the attempt; null: unknown.", 1)]
    worker: Annotated[str | None, doc("Name of the worker that ran it; null: unknown.", "web-1:4711")]
    started_at: Annotated[datetime | None, doc("When it started; null: unknown.", INSTANT)]
    ended_at: Annotated[datetime, doc("When it ended.", LATER)]
    outcome: Annotated[str, doc("How it ended: failed, lost, snoozed, interrupted, waiting …", "failed")]
    error: fields.ErrorOrNull

    @classmethod
    def of(cls, attempt: Attempt) -> AttemptAnswer:
        """From the desk's value."""
        return cls.model_validate(attempt, from_attributes=True)


class ActAnswer(Answer):
    """An order that a person gave."""

    at: Annotated[datetime, doc("When the order was given.", INSTANT)]
    verb: Annotated[str, doc("What was ordered: approve, reject, cancel, retry, priority, edit …", "retry")]
    by: fields.ByOrNull
    note: fields.NoteOrNull

    @classmethod
    def of(cls, act: Act) -> ActAnswer:
        """From the desk's value."""
        return cls.model_validate(act, from_attributes=True)


class AttemptsAnswer(Answer):
    """The history of a job, oldest first."""

    attempts: Annotated[list[AttemptAnswer], doc("Earlier runs.")]
    acts: Annotated[list[ActAnswer], doc("Orders that people gave.")]


class ReasonAnswer(Answer):
    """One reason why a job is not running."""

    code: Annotated[str, doc("Stable code for programs.", "lane_full")]
    text: Annotated[str, doc("The reason in one sentence.", "All 2 slots of the lane reports are taken.")]
    details: Annotated[
        dict[str, Any], doc("Numbers, ids and instants behind the text.", {"lane": "reports", "slots": 2})
    ]


class PositionAnswer(Answer):
    """Where a due job stands in the queue of its lane."""

    before: Annotated[
        fields.CountAnswer,
        doc("Due jobs that the lane starts before it, counted up to 1,000.", {"value": 12, "exact": True}),
    ]
    start_in: Annotated[
        float | None,
        doc(
            "About how many seconds until it starts, at the lane's pace of the last ten minutes; null: not to be said. "
            "Jobs that come later with a higher priority, gates, rates and caps are not foreseen.",
            40.0,
        ),
    ]

    @classmethod
    def of(cls, position: QueuePosition) -> PositionAnswer:
        """From the desk's value."""
        return cls(before=fields.CountAnswer.of(position.before), start_in=seconds(position.start_in))


class ExplanationAnswer(Answer):
    """Why a job is not running."""

    job_id: fields.PublicId
    verdict: Annotated[
        str, doc("The most decisive reason in one sentence.", "It waits for a slot in the lane reports.")
    ]
    reasons: Annotated[list[ReasonAnswer], doc("Every reason that holds, the most decisive first.")]
    position: Annotated[
        PositionAnswer | None,
        doc("Its place in the queue; null: it is not queued and due, no lane serves its kind, or the lane is fair."),
    ]

    @classmethod
    def of(cls, explanation: Explanation) -> ExplanationAnswer:
        """From the desk's value."""
        return cls(
            job_id=explanation.job.public_id,
            verdict=explanation.verdict,
            reasons=[
                ReasonAnswer(
                    code=reason.code,
                    text=reason.text,
                    details={key: _json(value) for key, value in reason.details.items()},
                )
                for reason in explanation.reasons
            ],
            position=None if explanation.position is None else PositionAnswer.of(explanation.position),
        )


class ExplanationsAnswer(Answer):
    """Why some jobs are not running."""

    items: Annotated[list[ExplanationAnswer], doc("Explanations, in the order asked.")]


def _json(value: object) -> object:
    return value.total_seconds() if isinstance(value, timedelta) else value


class ItemAnswer(Answer):
    """A named part of a job's work."""

    name: Annotated[str, doc("Name of the item, unique within its phase.", "page-17")]
    state: Annotated[ItemState, doc("State of the item.", "completed")]
    phase: Annotated[str, doc("Phase in which the item was reported; empty: outside of any.", "render")]
    started_at: Annotated[datetime | None, doc("When it began; null: unknown.", INSTANT)]
    ended_at: Annotated[datetime | None, doc("When it ended; null: it is in progress.", LATER)]
    reason: Annotated[str | None, doc("Why it was skipped; null: it was not.", None)]
    error: fields.ErrorOrNull


class ItemsAnswer(Answer):
    """A page of items, by phase and name."""

    items: Annotated[list[ItemAnswer], doc("Items of this page.")]
    next_cursor: fields.NextCursor


class LogLineAnswer(Answer):
    """A log line of a job."""

    n: Annotated[str, doc("Number of the line; grows over all attempts.", "4294967297")]
    at: Annotated[datetime, doc("When it was logged.", INSTANT)]
    level: Annotated[str, doc("Level of the line.", "INFO")]
    logger: Annotated[str, doc("Name of the logger.", "shop.invoices")]
    message: Annotated[str, doc("The formatted message.", "rendered page 17")]
    missed: Annotated[int, doc("Lines right before it that were dropped because the log was full.", 0)]

    @classmethod
    def of(cls, line: LogLine) -> LogLineAnswer:
        """From the desk's value."""
        return cls(
            n=str(line.n),
            at=line.at,
            level=line.level_name,
            logger=line.logger,
            message=line.message,
            missed=line.missed,
        )


class LogsAnswer(Answer):
    """Log lines of all attempts, oldest first."""

    items: Annotated[list[LogLineAnswer], doc("Lines of this page.")]
    next_cursor: Annotated[
        str | None, doc("Cursor behind the last line, also for lines to come; null: no line so far.", fields.CURSOR)
    ]


class PreviousAnswer(Answer):
    """An earlier job of the same kind."""

    job: Annotated[JobAnswer | None, doc("The job; null: none ran among the 25,000 jobs before.")]


class RelativeAnswer(Answer):
    """A job beside another one: in its workflow, or joined to it by a hook."""

    relation: Annotated[
        Literal["parent", "child", "hooked", "hook"],
        doc(
            "`parent`: waited for; `child`: waits; `hook`: runs after an outcome of the job; `hooked`: the job is a "
            "hook that runs after an outcome of this one.",
            "parent",
        ),
    ]
    id: fields.PublicId
    kind: fields.Kind
    state: fields.JobState
    step: Annotated[str | None, doc("Name of its step in the workflow; null: none.", "fetch")]
    met: Annotated[bool | None, doc("Whether the child got what it waited for; null: not known yet, or a hook.", True)]

    @classmethod
    def of(cls, relative: Relative) -> RelativeAnswer:
        """From the desk's value."""
        return cls.model_validate(
            {
                "relation": relative.relation,
                "id": ids.encode(relative.id),
                "kind": relative.kind,
                "state": relative.state,
                "step": relative.step,
                "met": relative.met,
            }
        )


class RelativesAnswer(Answer):
    """Neighbours of a job in its workflow, and its hooks."""

    items: Annotated[
        list[RelativeAnswer], doc("Parents, children, the job that a hook follows, then hooks; at most 200 of each.")
    ]
