"""AttemptIO: everything one attempt reads and writes through its worker, under its claim.

Contexts hold it behind a private attribute and show handlers their documented names only. The worker reaches it
directly, as RunningAttempt.io.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import ClaimLost, InvalidOption, SignalTimeout, Suspended
from rowlock.flow.locks.lock import LockOwner, LockRequest
from rowlock.flow.progress.claim_guard import run_guarded, run_guarded_sync
from rowlock.flow.progress.job_logs import captured, make_record
from rowlock.flow.progress.loop_share import LoopShare
from rowlock.flow.progress.report import ProgressReport
from rowlock.model import ids, redact, stored_args, stored_json
from rowlock.model.failure import error_fields
from rowlock.model.job import Claim, Job
from rowlock.model.keys import checked_key, shown
from rowlock.model.outcome import Failed
from rowlock.model.progress import ATTEMPT_LINES, LOGS_OFF, ItemRef, LogLine
from rowlock.model.state import State
from rowlock.model.times.duration import duration
from rowlock.store.rows.jobs import runs_of
from rowlock.telemetry import JobLog

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from rowlock.flow.enqueue.workflow_additions import CurrentWorkflow
    from rowlock.flow.locks.lock import HeldLock
    from rowlock.flow.progress.channel import AttemptChannel
    from rowlock.flow.progress.job_logs import CapturedRecord, JobLogCapture
    from rowlock.flow.progress.report import ItemUpdate, ReportSnapshot
    from rowlock.model.lock import LockKey
    from rowlock.model.options import Span
    from rowlock.model.outcome import Outcome
    from rowlock.store.rows.jobs import Row

logger = logging.getLogger("rowlock.handler")
_LISTED_FAILURES: Final = 100
"""Failed items listed in the job's own errors; the rows of the items have them all."""
_HIGHEST_LEVEL: Final = 32767
"""The highest level the column can store: logging takes any number."""
NO_STATE: Final[Mapping[str, Any]] = MappingProxyType({})


class AttemptIO:
    """Reads and writes of one attempt; on the event loop, unless a method says otherwise."""

    __slots__ = (
        "_capture",
        "_complete_args",
        "_current_workflow",
        "_cursors",
        "_job",
        "_log",
        "_lost",
        "_report",
        "_row",
        "_secrets",
        "_started",
        "_stop_requested",
        "_stopping",
        "channel",
        "claim",
        "deadline",
        "failed_items",
        "failures",
        "held_locks",
        "log_level",
        "loop_share",
        "outcome_of",
        "state",
    )

    def __init__(
        self,
        row: Row,
        channel: AttemptChannel,
        stopping: asyncio.Event,
        *,
        capture: JobLogCapture | None = None,
        log_level: int = LOGS_OFF,
        complete_args: Callable[[str], str] = str,
        outcome_of: Callable[[BaseException], Outcome] | None = None,
    ) -> None:
        """stopping: set when the worker shuts down. complete_args: adds the handler's defaults to stored arguments.

        outcome_of: judges an error; None: every error fails the job.
        """
        self.outcome_of = outcome_of or (lambda error: Failed(error_fields(error, frozenset())))
        self.claim = Claim(row["id"], row["fence"])
        self.channel = channel
        self.deadline: float | None = None
        """Loop time at which the timeout strikes; None: no timeout."""
        self.state: Mapping[str, Any] = NO_STATE
        """What the worker's lifespans yielded."""
        self.log_level = log_level
        self.failures: list[str] = []
        """The first failed items, one sentence each; with any, the job ends as completed_with_errors."""
        self.failed_items = 0
        self.held_locks: list[tuple[HeldLock, int | None]] = []
        """Locks of a blocking handler, each with the id of the thread that holds it; None: the whole job does."""
        self.loop_share = LoopShare()
        """Used by handlers on an event loop."""
        self._row, self._stopping, self._capture, self._complete_args = row, stopping, capture, complete_args
        self._started = time.monotonic()
        self._stop_requested = self._lost = False
        self._job: Job | None = None
        self._report: ProgressReport | None = None
        self._log: JobLog | None = None
        self._current_workflow: CurrentWorkflow | None = None
        self._cursors: dict[str, int] | None = None
        self._secrets: frozenset[str] | None = None

    # --- the job -----------------------------------------------------------------------------------------------------

    @property
    def job(self) -> Job:
        """The job as it was claimed, its args completed with the handler's defaults."""
        if self._job is None:
            self._job = claimed_job(self._row, self._complete_args(self._row["args"]))
        return self._job

    @property
    def public_id(self) -> str:
        """The job's id for messages."""
        return ids.encode(self.claim.job_id)

    def now(self, at: float | None = None) -> datetime:
        """The database's time, estimated: when the job was claimed, plus what has passed since. at: monotonic time."""
        claimed = self._row["claimed_at"] or datetime.now(UTC)
        return claimed + timedelta(seconds=(time.monotonic() if at is None else at) - self._started)

    # --- stopping ----------------------------------------------------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """Whether the worker is shutting down or this attempt was asked to stop."""
        return self._stop_requested or self._stopping.is_set()

    @property
    def lost(self) -> bool:
        """Whether the claim is lost."""
        return self._lost

    def request_stop(self, *, lost: bool) -> None:
        """Ask the handler to stop at its next call. lost: because the claim is lost."""
        self._stop_requested, self._lost = True, self._lost or lost

    def check_claim(self) -> None:
        """Raise ClaimLost if the claim is lost."""
        if self._lost:
            message = f"This attempt does not hold job {self.public_id} any more; nothing it reports is stored."
            raise ClaimLost(message)

    # --- progress ----------------------------------------------------------------------------------------------------

    def set_progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Set the counter of the present phase."""
        report = self._changing()
        number, of = _number(done, "done"), None if total is None else _number(total, "total")
        report.set_counter(self.now(), number, of, None if message is None else self.scrub(str(message)))
        self.channel.note(report)

    def advance(self, by: float, message: str | None = None, phase: int | None = None) -> None:
        """Add to the counter of the present phase. phase: its number; nothing is added once another one began."""
        report = self._changing()
        if phase in (None, report.phase_number):
            self.set_progress(report.done + _number(by, "by"), message=message)

    def begin_phase(self, name: str, total: float | None = None, done: float = 0) -> int:
        """Begin a phase; returns its number."""
        report = self._changing()
        if report.in_phase:
            self.log.warning(
                "phase %r began inside %r, which ends here: phases follow one another. Report work that runs "
                "concurrently as items of one phase",
                *(name, report.phase),
            )
        of = None if total is None else _number(total, "total")
        report.begin_phase(self.now(), redact.storable(self.scrub(str(name))), of, _number(done, "done"))
        self.channel.note(report)
        return report.phase_number

    def end_phase(self, number: int, *, completed: bool = True) -> None:
        """The block of a phase is over. completed False: it raised, and the phase stays open as where the job stood."""
        if completed:
            report = self._changing()
            report.end_phase(self.now(), number)
            self.channel.note(report)
        elif self._report is not None and number == self._report.phase_number:
            self._report.in_phase = False

    def merge(self, snapshot: ReportSnapshot) -> None:
        """Take over what this attempt reported in a child process."""
        report = self._changing()
        report.merge(snapshot)
        self.channel.note(report)

    async def settle(self) -> None:
        """Write the last progress, before the outcome uses up the claim."""
        if self._report is not None and (self._report.dirty or self._report.writing):
            await self.channel.flush()

    def _changing(self) -> ProgressReport:
        """The report, about to be changed; ClaimLost without the claim."""
        self.check_claim()
        if self._report is None:
            self._report = ProgressReport(self.claim)
        return self._report

    # --- items -------------------------------------------------------------------------------------------------------

    @property
    def _phase(self) -> str:
        return (self._report.phase if self._report is not None else None) or ""

    def item_ref(self, name: str) -> ItemRef:
        """A reference to an item of this attempt in its present phase, by its name without secrets."""
        return ItemRef(self.claim.job_id, self.claim.fence, self._phase, self.scrub(name))

    def update_item(self, item: ItemRef, update: ItemUpdate) -> None:
        """Report an item's newest state."""
        report = self._changing()
        report.has_progress = True
        report.items[Claim(item.job_id, item.fence), item.phase, item.name] = update
        self.channel.note(report)

    def expect_items(self, count: int | None) -> None:
        """Add to the number of items to come; the counter of the phase counts them. None: unknown."""
        report = self._changing()
        report.has_progress = True
        if count is not None:
            report.items_total = (report.items_total or 0) + count
            report.total = count if report.total is None else report.total

    def add_failure(self, sentence: str) -> None:
        """Note an item that failed while the job goes on."""
        self.failed_items += 1
        if len(self.failures) < _LISTED_FAILURES:
            self.failures.append(sentence)

    async def kept_items(self, *, resume: bool) -> frozenset[str]:
        """The items of the present phase that earlier attempts finished; a first attempt has none."""
        if self.claim.fence == 1:
            return frozenset()
        return await self.keep_items(self._phase, resume=resume)

    async def keep_items(self, phase: str, *, resume: bool) -> frozenset[str]:
        """The items of a phase that earlier attempts finished."""
        return frozenset(await self.channel.keep_items(self._changing(), phase, resume=resume))

    async def save_items(self) -> None:
        """Write the items reported so far and wait until they are committed."""
        await self.channel.save(self._changing())

    # --- checkpoint, cursors, signals --------------------------------------------------------------------------------

    async def save_checkpoint(self, checkpoint: str | None) -> None:
        """Save a checkpoint of JSON text and wait until it is committed. None: only what else was reported."""
        report = self._changing()
        report.checkpoint, report.has_progress = checkpoint or report.checkpoint, True
        await self.channel.save(report)

    async def load_checkpoint(self) -> Any:  # noqa: ANN401 - what the handler saved
        """The checkpoint, decoded; None: nothing was saved."""
        text = await self.channel.load_checkpoint(self.claim)
        return None if text is None else json.loads(text)

    async def cursor(self, name: str) -> int:
        """How many elements of a ctx.resume() loop earlier attempts have done."""
        if self._cursors is None:
            self._cursors = {} if self.claim.fence == 1 else await self.channel.load_cursors(self.claim)
        return self._cursors.get(name, 0)

    def set_cursor(self, name: str, done: int) -> None:
        """Note how many elements of a ctx.resume() loop are done."""
        report = self._changing()
        report.cursors[name], report.has_progress = done, True
        self.channel.note(report)

    async def wait_for_signal(self, name: str, timeout: timedelta | str | float | None) -> Any:  # noqa: ANN401 - what was sent
        """The payload of a signal; Suspended while it has not come, SignalTimeout when it did not come in time."""
        limit = None if timeout is None else duration(timeout, name="timeout")
        text = await self.channel.read_signal(self.claim, checked_key(name, "signal"))
        if text is None:
            raise Suspended(name, limit)
        found = json.loads(text)
        if found["timed_out"]:
            message = f"No signal {name!r} was sent to job {self.public_id} before its timeout."
            raise SignalTimeout(message)
        return found["payload"]

    # --- the user's own transaction ----------------------------------------------------------------------------------

    async def guard(self, session: object) -> None:
        """Check the claim in the user's transaction and hold it until its commit."""
        await run_guarded(session, self.channel.statements, "guard", self._claim_values, "ctx.guarded()")

    def guard_sync(self, session: object) -> None:
        """guard() for blocking code, in the handler's thread."""
        run_guarded_sync(session, self.channel.statements, "guard", self._claim_values, "ctx.guarded()")

    async def save_checkpoint_in(self, session: object, checkpoint: str) -> None:
        """Save a checkpoint of JSON text with the user's own transaction."""
        values = {**self._claim_values, "checkpoint": checkpoint}
        await run_guarded(session, self.channel.statements, "save_checkpoint", values, "ctx.checkpoint.save()")

    def save_checkpoint_in_sync(self, session: object, checkpoint: str) -> None:
        """save_checkpoint_in() for blocking code, in the handler's thread."""
        values = {**self._claim_values, "checkpoint": checkpoint}
        run_guarded_sync(session, self.channel.statements, "save_checkpoint", values, "ctx.checkpoint.save()")

    @property
    def _claim_values(self) -> dict[str, object]:
        return {"id": self.claim.job_id, "fence": self.claim.fence, "worker": self._row["claimed_by"]}

    # --- logs --------------------------------------------------------------------------------------------------------

    @property
    def log(self) -> JobLog:
        """A logger whose records carry the job and are stored with it, however logging is configured."""
        if self._log is None:
            self._log = JobLog(logger, self._row, self._keep if self._capture is not None else None)
        return self._log

    def add_log(self, record: CapturedRecord) -> None:
        """Store a log record with the job."""
        if self._lost:
            return
        report = self._changing()
        n = self.claim.fence * ATTEMPT_LINES + next(report.line_numbers)
        text = redact.storable(self.scrub(record.text))
        name = redact.storable(record.logger)[:200]
        report.lines.append(LogLine(n, self.now(record.at), min(record.level, _HIGHEST_LEVEL), name, text))
        with contextlib.suppress(ClaimLost):
            self.channel.note(report)

    def _keep(self, level: int, message: object, args: tuple[Any, ...], exc_info: object) -> None:
        if level >= self.log_level and self._capture is not None:
            self._capture.add(self, captured(make_record(logger.name, level, message, args, exc_info)))

    def scrub(self, text: str) -> str:
        """The text without the secrets among the job's arguments."""
        return redact.scrub(text, self.secrets) if self.secrets else text

    @property
    def secrets(self) -> frozenset[str]:
        """The secret values among the job's arguments."""
        if self._secrets is None:
            self._secrets = redact.secrets_in(self._row["args"])
        return self._secrets

    # --- locks and workflow ------------------------------------------------------------------------------------------

    def lock_request(
        self, namespace: str, key: LockKey, item: str | None, *, wait: bool, timeout: Span | None
    ) -> LockRequest:
        """A request for a lock by this attempt. item: the item that wants it; None: the job itself."""
        named = None if item is None else self.scrub(item)
        owner = LockOwner(self.claim.job_id, self.claim.fence, self._row["kind"], named)
        return LockRequest.of(namespace, key, owner, wait=wait, timeout=timeout)

    @property
    def workflow(self) -> CurrentWorkflow:
        """Adds steps to the workflow this job is a step of."""
        if self._current_workflow is None:
            from rowlock.flow.enqueue.workflow_additions import CurrentWorkflow  # noqa: PLC0415 - few jobs add steps to a workflow

            self._current_workflow = CurrentWorkflow(self.claim, self._row["kind"], self.channel)
        return self._current_workflow


def claimed_job(row: Row, text: str) -> Job:
    """A Job made of the columns that a claim returns. text: its arguments as JSON."""
    args, args_version = stored_args.of_row(text)
    return Job(
        id=row["id"],
        kind=row["kind"],
        state=State.RUNNING,
        priority=row["priority"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        losses=row["losses"],
        runs=runs_of(row),
        created_at=row["created_at"],
        run_after=row["run_after"],
        claimed_at=row["claimed_at"],
        fence=row["fence"],
        lane=row["lane"],
        tenant=row["tenant"],
        submitted_by=row["submitted_by"],
        gate_key=row["gate_key"],
        tags=tuple(row["tags"] or ()),
        refs=stored_json.shown_object(row["refs"], "refs"),
        meta=stored_json.shown_object(row["meta"], "meta"),
        args=args,
        args_version=args_version,
        workflow_id=row["workflow_id"],
        step=row["step"],
    )


def _number(value: float, name: str) -> float:
    """A counter that can be stored; checked at the handler's call, so that a bad one cannot fail a batch of reports."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, str | bytes):
        message = f"{name} must be a number that a float can hold; got {shown(value)}."
        raise InvalidOption(message)
    return value if isinstance(value, int) else number
