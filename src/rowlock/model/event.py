"""What happened to one job, told from its rows: events in order, each with the position from which a stream goes on.

A plain successful job writes no event. Its row, the rows of failed attempts, people's acts, the last report and the log
tell all there is to tell, and tell it the same to whoever asks, now or after a restart. A fence numbers the job's
transitions, so an event's place never changes. Not told afterwards is what leaves no row: that a job was parked at a
gate and released, or replaced, while nobody looked; whoever looks meanwhile is told `job.updated`.
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
"""Every name an event of a job's stream may have."""

_WAITS: Final = frozenset({State.PENDING, State.BLOCKED, State.QUEUED})
_WAITED: Final = "waiting"
"""The outcome of an attempt that waits for a signal."""
_POSITION: Final = re.compile(r"(\d{1,10})(?:\.(\d{1,10})\.(\d{1,10})\.(\d{1,19}))?(\.end)?")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """How much of a job's life was told: transitions, other changes, reports, log lines; and whether its end was.

    Each number only grows. A transition is counted from 1, so that 0 is before everything.
    """

    step: int = 0
    change: int = 0
    report: int = 0
    line: int = 0
    ended: bool = False

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position an event carried as its id; 0: from the beginning."""
        found = _POSITION.fullmatch(text.strip())
        if found is None:
            message = f"Expected the id of an event of this stream, such as 3.0.2.0, or 0; got {text[:60]!r}."
            raise InvalidOption(message)
        step, change, report, line = (int(number or 0) for number in found.groups()[:4])
        return cls(step, change, report, line, ended=found[5] is not None)

    @override
    def __str__(self) -> str:
        """The id of the event that leads here."""
        return f"{self.step}.{self.change}.{self.report}.{self.line}{'.end' if self.ended else ''}"

    def fits(self, job: Job | Life) -> bool:
        """Whether the job can have been there: a position ahead of it is another job's, or of a lost past."""
        return self.step <= job.fence + 1 and self.change <= job.seq - job.fence

    @classmethod
    def of(cls, job: Job) -> Position:
        """Where a stream goes on after the job was shown; lines of its log are not."""
        return cls(job.fence + 1, job.seq - job.fence, 0 if job.progress is None else job.progress.n)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One thing that happened, with the position after it."""

    name: str
    at: datetime | None
    data: Mapping[str, object]
    position: Position


@dataclass(frozen=True, slots=True)
class Mark:
    """A person's act with its place in the job's life. stays: no transition. was, ended_at: what a retry reopened."""

    verb: str
    at: datetime
    by: str | None
    note: str | None
    fence: int
    seq: int
    stays: bool = False
    was: str | None = None
    ended_at: datetime | None = None
    priority: int | None = None

    @property
    def who(self) -> dict[str, object]:
        """By whom and why."""
        return {key: value for key, value in (("by", self.by), ("note", self.note)) if value is not None}


@dataclass(frozen=True, slots=True)
class Report:
    """What a job reported last; n counts its reports over all attempts."""

    fence: int
    n: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class _Happened:
    """An event that has its place in the life, but no position yet."""

    name: str
    at: datetime | None
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Life:
    """What the rows told of one job at one moment.

    since, until: the fences between which attempts and acts are known. owned: its last owner wrote its last state.
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
    acts: Sequence[Mark] = ()
    report: Report | None = None
    line: int = 0
    """The last line of its log; the lines themselves are read by those who follow it."""

    @property
    def position(self) -> Position:
        """Where whoever has seen all this stands."""
        return Position(self.fence + 1, self.seq - self.fence, self.report.n if self.report else 0, self.line)

    def tells(self, position: Position) -> bool:
        """Whether nothing is missing after the position."""
        return self.since <= max(0, position.step - 1)

    def after(self, position: Position, lines: Sequence[LogLine] = (), *, all_lines: bool = True) -> list[StreamEvent]:
        """What happened after the position, in order; deterministic, so that nobody need remember what was sent.

        lines: those of its log after the position. Not all of them: what came after the last one waits for the others.
        """
        steps, told = self._steps(), []
        first = max(0, position.step - 1)
        last = min(self.fence, self.until if all_lines else lines[-1].fence)
        for fence in range(first, last + 1):
            happened = steps.get(fence)
            if happened is not None and fence >= position.step:
                position = replace(position, step=fence + 1, ended=False)
                told.append(self._told(happened, position))
            for change, between in self._between(fence):
                if change > position.change:
                    position = replace(position, change=change)
                    told.append(self._told(between, position))
            for line in lines:
                # A line may be stored a moment after the end of its attempt was told.
                if line.fence == fence or (fence == first and line.fence < first):
                    position = replace(position, line=line.n)
                    told.append(self._told(_logged(line), position))
            report = self.report
            lined = all_lines or fence < last
            if report is not None and report.fence == fence and report.n > position.report and lined:
                position = replace(position, report=report.n)
                told.append(self._told(_reported(report), position))
        return told

    def _told(self, happened: _Happened, position: Position) -> StreamEvent:
        data = {"id": ids.encode(self.job_id), "kind": self.kind, **happened.data}
        return StreamEvent(happened.name, happened.at, data, position)

    # --- transitions -------------------------------------------------------------------------------------------------

    def _steps(self) -> dict[int, _Happened]:
        """What is known of the transitions, by the fence they led to."""
        steps = {0: self._created()}
        acts = {act.fence: act for act in self.acts if not act.stays}
        for attempt in self.attempts:
            steps[attempt.fence] = _claimed(attempt.started_at, attempt.attempt, attempt.worker)
            steps[attempt.fence + 1] = self._given_back(attempt, acts.get(attempt.fence + 2))
            if attempt.outcome == _WAITED and attempt.fence + 2 <= self.fence:
                # Nothing else leads out of a wait but an end, which is put over this.
                steps[attempt.fence + 2] = _Happened(RELEASED, None, {"state": State.QUEUED})
        if self.state is State.RUNNING:
            steps[self.fence] = _claimed(self.claimed_at, self.attempt, self.worker, lane=self.lane)
        elif self.state.is_final and self.owned:
            steps[self.fence - 1] = _claimed(self.claimed_at, self.attempt, self.worker, lane=self.lane)
        for fence, act in acts.items():
            if act.verb == "approve":
                steps[fence] = _Happened(APPROVED, act.at, {"state": State.QUEUED, **act.who})
            elif act.verb == "retry":
                ending = acts.get(fence - 1)
                steps[fence - 1] = self._reopened_end(act, steps.get(fence - 1), ending.who if ending else {})
                steps[fence] = _Happened(REOPENED, act.at, {**self._state_at(fence), **act.who})
            elif act.verb == "edit":
                steps[fence] = _Happened(UPDATED, act.at, {"state": State.PENDING, **act.who})
        if self.state.is_final:
            act_now = acts.get(self.fence)
            steps[self.fence] = self._ended(self.state, self.finished_at, self.error, act_now.who if act_now else {})
        steps.setdefault(self.fence, self._updated({}))
        return steps

    def _created(self) -> _Happened:
        return _Happened(CREATED, self.created_at, {"priority": self.priority, **self._state_at(0)})

    def _state_at(self, fence: int) -> dict[str, object]:
        """The state a job waits in after this transition, as far as known: now, or from what a person did next."""
        if fence == self.fence:
            return {"state": self.state}
        decided = any(act.fence == fence + 1 and act.verb in ("approve", "reject") for act in self.acts)
        return {"state": State.PENDING if decided else State.QUEUED}

    def _given_back(self, attempt: Attempt, then: Mark | None) -> _Happened:
        now = attempt.fence + 1 == self.fence
        if attempt.outcome == _WAITED:
            signal = (attempt.error or {}).get("signal")
            return _Happened(
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
        return _Happened(HELD if held else RETRYING, attempt.ended_at, data)

    def _reopened_end(self, act: Mark, known: _Happened | None, who: Mapping[str, object]) -> _Happened:
        """The end that a person's retry has undone since."""
        before = known.data if known else {}
        error = before.get("error")
        return _Happened(
            ENDS[State(act.was or State.FAILED)],
            act.ended_at,
            {"state": act.was, **({"error": error} if error else {}), **who},
        )

    @staticmethod
    def _ended(state: State, at: datetime | None, error: Mapping[str, object], who: Mapping[str, object]) -> _Happened:
        return _Happened(ENDS[state], at, {"state": state, **({"error": error} if error else {}), **who})

    # --- what is no transition ---------------------------------------------------------------------------------------

    def _between(self, fence: int) -> Iterator[tuple[int, _Happened]]:
        """Changes after this transition and before the next, numbered."""
        known = 0
        for act in self.acts:
            if act.stays and act.fence == fence:
                known = act.seq - act.fence
                if act.verb == "cancel":
                    yield known, _Happened(CANCELLING, act.at, {"state": State.RUNNING, **act.who})
                elif act.verb == "approve":
                    yield known, _Happened(APPROVED, act.at, {"state": State.PENDING, **act.who})
                else:
                    yield known, self._updated(act.who, act)
        if fence == self.fence and self.state in _WAITS and self.seq - self.fence > known:
            yield self.seq - self.fence, self._updated({})

    def _updated(self, who: Mapping[str, object], act: Mark | None = None) -> _Happened:
        """The row as it is now; of an act, what it set."""
        if act is not None and act.priority is not None:
            return _Happened(UPDATED, act.at, {"priority": act.priority, **who})
        data = {"state": self.state, "priority": self.priority, "run_after": self.run_after, **who}
        return _Happened(UPDATED, act.at if act else None, data)


def _claimed(at: datetime | None, attempt: int | None, worker: str | None, **more: object) -> _Happened:
    return _Happened(CLAIMED, at, {"state": State.RUNNING, "attempt": attempt, "worker": worker, **more})


def _reported(report: Report) -> _Happened:
    told = report.progress
    data: dict[str, object] = {
        "phase": told.phase,
        "done": told.done,
        "total": told.total,
        "fraction": told.fraction,
        "message": told.message,
        "eta_s": None if told.eta is None else round(told.eta.total_seconds(), 1),
    }
    if told.items is not None:
        data["items"] = asdict(told.items)
    return _Happened(PROGRESS, told.reported_at, {"state": State.RUNNING, **data})


def _logged(line: LogLine) -> _Happened:
    data = {"n": str(line.n), "level": line.level_name, "logger": line.logger, "message": line.message}
    return _Happened(LOG, line.at, {**data, **({"missed": line.missed} if line.missed else {})})


def _brief(error: Mapping[str, object] | None) -> dict[str, object]:
    """What of an error fits a line; tracebacks may be long."""
    return {key: error[key] for key in ("reason", "type", "message") if error and error.get(key) is not None}
