"""Events of one job's stream, derived from its rows, each with the position from which a stream resumes.

A plain successful job writes no event rows. Its own row, the rows of failed attempts, people's acts, the last progress
report and the log describe its whole life, and every process derives the same events from them, also after a restart.
The fence numbers the job's transitions, so an event never changes its place. Changes that leave no row (parked at a
gate and released, replaced by a newer call) appear only to clients that follow meanwhile, as `job.updated`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from rowlock.errors import InvalidOption
from rowlock.model import ids
from rowlock.model.state import FINAL, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from rowlock.model.job import Attempt, Job
    from rowlock.model.progress import LogLine, Progress

SNAPSHOT: Final = "snapshot"
CREATED: Final = "job.created"
APPROVED: Final = "job.approved"
CLAIMED: Final = "job.claimed"
PROGRESS: Final = "job.progress"
LOG: Final = "job.log"
CANCELLING: Final = "job.cancelling"
RETRYING: Final = "job.retrying"
WAITING: Final = "job.waiting"
RELEASED: Final = "job.released"
HELD: Final = "job.held"
REOPENED: Final = "job.reopened"
UPDATED: Final = "job.updated"
ENDS: Final = {state: f"job.{state}" for state in sorted(FINAL)}
END: Final = "end"
NAMES: Final = (
    *(
        SNAPSHOT,
        CREATED,
        APPROVED,
        CLAIMED,
        PROGRESS,
        LOG,
        CANCELLING,
        RETRYING,
        WAITING,
        RELEASED,
        HELD,
        REOPENED,
        UPDATED,
    ),
    *ENDS.values(),
    END,
)
"""Every event name of a job's stream."""

_WAITING_STATES: Final = frozenset({State.PENDING, State.BLOCKED, State.QUEUED})
_WAITED_FOR_SIGNAL: Final = "waiting"
"""The outcome of an attempt that gave its slot back to wait for a signal."""
_POSITION: Final = re.compile(r"(\d{1,10})(?:\.(\d{1,10})\.(\d{1,10})\.(\d{1,19}))?(\.end)?")


@dataclass(frozen=True, slots=True, order=True)
class StreamPosition:
    """How much of a job's stream a client has received: transitions, other changes, reports, log lines, and the end.

    Each number only grows. Transitions count from 1, so 0 is before everything.
    """

    step: int = 0
    change: int = 0
    report: int = 0
    line: int = 0
    ended: bool = False

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """Read the id of an event; "0" is the beginning of the stream."""
        found = _POSITION.fullmatch(text.strip())
        if found is None:
            message = (
                f"Expected the id of an event of this stream, such as 3.0.2.0, or 0 to begin; got {text[:60]!r}. "
                "Send the id of the last event you received, or none for a snapshot."
            )
            raise InvalidOption(message)
        step, change, report, line = (int(number or 0) for number in found.groups()[:4])
        return cls(step, change, report, line, ended=found[5] is not None)

    @override
    def __str__(self) -> str:
        """Write the position as an event id."""
        return f"{self.step}.{self.change}.{self.report}.{self.line}{'.end' if self.ended else ''}"

    def fits(self, job: Job | JobTimeline) -> bool:
        """Whether the job has come this far; a position ahead of it is of another job or a lost database."""
        return self.step <= job.fence + 1 and self.change <= job.seq - job.fence

    @classmethod
    def of(cls, job: Job) -> StreamPosition:
        """The position right after a snapshot of the job, which does not contain its log lines."""
        return cls(job.fence + 1, job.seq - job.fence, 0 if job.progress is None else job.progress.n)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a job's stream. position: where the stream resumes after it."""

    name: str
    at: datetime | None
    data: Mapping[str, object]
    position: StreamPosition


@dataclass(frozen=True, slots=True)
class TimelineAct:
    """A person's act and its place in the job's timeline.

    no_transition: the act left the job in its state. previous_state, ended_at: the final state that a retry reopened.
    """

    verb: str
    at: datetime
    by: str | None
    note: str | None
    fence: int
    seq: int
    no_transition: bool = False
    previous_state: str | None = None
    ended_at: datetime | None = None
    priority: int | None = None

    @property
    def by_and_note(self) -> dict[str, object]:
        """The members `by` and `note` of its event; absent when unknown."""
        return {key: value for key, value in (("by", self.by), ("note", self.note)) if value is not None}


@dataclass(frozen=True, slots=True)
class TimelineProgress:
    """The last progress report of a job. n: its number, counted over all attempts; fence: of the attempt."""

    fence: int
    n: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class _EventDraft:
    """An event without its id, kind and position."""

    name: str
    at: datetime | None
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class JobTimeline:
    """The rows of one job as read at one moment, from which its events are derived.

    since, until: attempts and acts between these fences are loaded. owned: the worker that ran it wrote its last state.
    """

    job_id: int
    kind: str
    state: State
    fence: int
    seq: int
    attempt: int
    priority: int
    lane: str | None
    worker: str | None
    owned: bool
    created_at: datetime
    run_after: datetime
    claimed_at: datetime | None
    finished_at: datetime | None
    error: Mapping[str, object]
    since: int
    until: int
    attempts: Sequence[Attempt] = ()
    acts: Sequence[TimelineAct] = ()
    report: TimelineProgress | None = None
    line: int = 0
    """Number of the last log line; streams read the lines themselves."""

    @property
    def position(self) -> StreamPosition:
        """The position of a client that has received all of it."""
        return StreamPosition(self.fence + 1, self.seq - self.fence, self.report.n if self.report else 0, self.line)

    def covers(self, position: StreamPosition) -> bool:
        """Whether every attempt and act after the position is loaded."""
        return self.since <= max(0, position.step - 1)

    def events_after(
        self, position: StreamPosition, lines: Sequence[LogLine] = (), *, all_lines: bool = True
    ) -> list[StreamEvent]:
        """The events after the position, in order. The same rows give the same events, so no process keeps a record.

        lines: the log lines after the position. all_lines: False when more lines follow; later events then wait.
        """
        steps, events = self._transitions(), list[StreamEvent]()
        first = max(0, position.step - 1)
        last = min(self.fence, self.until if all_lines else lines[-1].fence)
        for fence in range(first, last + 1):
            draft = steps.get(fence)
            if draft is not None and fence >= position.step:
                position = replace(position, step=fence + 1, ended=False)
                events.append(self._placed(draft, position))
            for change, between in self._changes(fence):
                if change > position.change:
                    position = replace(position, change=change)
                    events.append(self._placed(between, position))
            for line in lines:
                # A line may be stored a moment after the event that ended its attempt was sent.
                if line.fence == fence or (fence == first and line.fence < first):
                    position = replace(position, line=line.n)
                    events.append(self._placed(_logged(line), position))
            report = self.report
            lines_complete = all_lines or fence < last
            if report is not None and report.fence == fence and report.n > position.report and lines_complete:
                position = replace(position, report=report.n)
                events.append(self._placed(_reported(report), position))
        return events

    def _placed(self, draft: _EventDraft, position: StreamPosition) -> StreamEvent:
        data = {"id": ids.encode(self.job_id), "kind": self.kind, **draft.data}
        return StreamEvent(draft.name, draft.at, data, position)

    # --- transitions -------------------------------------------------------------------------------------------------

    def _transitions(self) -> dict[int, _EventDraft]:
        """The known transitions, by the fence that each of them set."""
        steps = {0: self._created()}
        acts = {act.fence: act for act in self.acts if not act.no_transition}
        for attempt in self.attempts:
            steps[attempt.fence] = _claimed(attempt.started_at, attempt.attempt, attempt.worker)
            steps[attempt.fence + 1] = self._given_back(attempt, acts.get(attempt.fence + 2))
            if attempt.outcome == _WAITED_FOR_SIGNAL and attempt.fence + 2 <= self.fence:
                # A job leaves this wait by a release or by its end; an end replaces this entry below.
                steps[attempt.fence + 2] = _EventDraft(RELEASED, None, {"state": State.QUEUED})
        if self.state is State.RUNNING:
            steps[self.fence] = _claimed(self.claimed_at, self.attempt, self.worker, lane=self.lane)
        elif self.state.is_final and self.owned:
            steps[self.fence - 1] = _claimed(self.claimed_at, self.attempt, self.worker, lane=self.lane)
        for fence, act in acts.items():
            if act.verb == "approve":
                steps[fence] = _EventDraft(APPROVED, act.at, {"state": State.QUEUED, **act.by_and_note})
            elif act.verb == "retry":
                ending = acts.get(fence - 1)
                steps[fence - 1] = self._reopened_end(act, steps.get(fence - 1), ending.by_and_note if ending else {})
                steps[fence] = _EventDraft(REOPENED, act.at, {**self._state_at(fence), **act.by_and_note})
            elif act.verb == "edit":
                steps[fence] = _EventDraft(UPDATED, act.at, {"state": State.PENDING, **act.by_and_note})
        if self.state.is_final:
            act_now = acts.get(self.fence)
            steps[self.fence] = self._ended(
                self.state, self.finished_at, self.error, act_now.by_and_note if act_now else {}
            )
        steps.setdefault(self.fence, self._updated({}))
        return steps

    def _created(self) -> _EventDraft:
        return _EventDraft(CREATED, self.created_at, {"priority": self.priority, **self._state_at(0)})

    def _state_at(self, fence: int) -> dict[str, object]:
        """The state after a transition into waiting: the current one, or derived from a person's next act."""
        if fence == self.fence:
            return {"state": self.state}
        decided = any(act.fence == fence + 1 and act.verb in ("approve", "reject") for act in self.acts)
        return {"state": State.PENDING if decided else State.QUEUED}

    def _given_back(self, attempt: Attempt, then: TimelineAct | None) -> _EventDraft:
        now = attempt.fence + 1 == self.fence
        if attempt.outcome == _WAITED_FOR_SIGNAL:
            signal = (attempt.error or {}).get("signal")
            return _EventDraft(
                WAITING, attempt.ended_at, {"state": State.BLOCKED, "attempt": attempt.attempt, "signal": signal}
            )
        held = (now and self.state is State.PENDING) or (then is not None and then.verb in ("approve", "reject"))
        data: dict[str, object] = {
            "state": State.PENDING if held else State.QUEUED,
            "attempt": attempt.attempt,
            "outcome": attempt.outcome,
        }
        if now and not held:
            data["run_after"] = self.run_after
        if error := _brief(attempt.error):
            data["error"] = error
        return _EventDraft(HELD if held else RETRYING, attempt.ended_at, data)

    def _reopened_end(self, act: TimelineAct, known: _EventDraft | None, by: Mapping[str, object]) -> _EventDraft:
        """The end that a person's retry has reopened."""
        before = known.data if known else {}
        error = before.get("error")
        return _EventDraft(
            ENDS[State(act.previous_state or State.FAILED)],
            act.ended_at,
            {"state": act.previous_state, **({"error": error} if error else {}), **by},
        )

    @staticmethod
    def _ended(state: State, at: datetime | None, error: Mapping[str, object], by: Mapping[str, object]) -> _EventDraft:
        return _EventDraft(ENDS[state], at, {"state": state, **({"error": error} if error else {}), **by})

    # --- changes without a transition --------------------------------------------------------------------------------

    def _changes(self, fence: int) -> Iterator[tuple[int, _EventDraft]]:
        """Numbered changes between this transition and the next."""
        known = 0
        for act in self.acts:
            if act.no_transition and act.fence == fence:
                known = act.seq - act.fence
                if act.verb == "cancel":
                    yield known, _EventDraft(CANCELLING, act.at, {"state": State.RUNNING, **act.by_and_note})
                elif act.verb == "approve":
                    yield known, _EventDraft(APPROVED, act.at, {"state": State.PENDING, **act.by_and_note})
                else:
                    yield known, self._updated(act.by_and_note, act)
        if fence == self.fence and self.state in _WAITING_STATES and self.seq - self.fence > known:
            yield self.seq - self.fence, self._updated({})

    def _updated(self, by: Mapping[str, object], act: TimelineAct | None = None) -> _EventDraft:
        """The row as it is now, or the priority that an act has set."""
        if act is not None and act.priority is not None:
            return _EventDraft(UPDATED, act.at, {"priority": act.priority, **by})
        data = {"state": self.state, "priority": self.priority, "run_after": self.run_after, **by}
        return _EventDraft(UPDATED, act.at if act else None, data)


def _claimed(at: datetime | None, attempt: int | None, worker: str | None, **more: object) -> _EventDraft:
    return _EventDraft(CLAIMED, at, {"state": State.RUNNING, "attempt": attempt, "worker": worker, **more})


def _reported(report: TimelineProgress) -> _EventDraft:
    progress = report.progress
    data: dict[str, object] = {
        "phase": progress.phase,
        "done": progress.done,
        "total": progress.total,
        "fraction": progress.fraction,
        "message": progress.message,
        "eta": None if progress.eta is None else round(progress.eta.total_seconds(), 1),
    }
    if progress.items is not None:
        data["items"] = asdict(progress.items)
    return _EventDraft(PROGRESS, progress.reported_at, {"state": State.RUNNING, **data})


def _logged(line: LogLine) -> _EventDraft:
    data = {"n": str(line.n), "level": line.level_name, "logger": line.logger, "message": line.message}
    return _EventDraft(LOG, line.at, {**data, **({"missed": line.missed} if line.missed else {})})


def _brief(error: Mapping[str, object] | None) -> dict[str, object]:
    """The error without its traceback, which may be long."""
    return {key: error[key] for key in ("reason", "type", "message") if error and error.get(key) is not None}
