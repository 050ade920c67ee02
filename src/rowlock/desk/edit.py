"""Edits of waiting jobs: arguments, due time, tags, priority."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rowlock.desk.audit import as_json
from rowlock.errors import ConfigurationError, InvalidOption, WrongState
from rowlock.model import ids, stored_args, stored_json
from rowlock.model.notify_messages import LOOK_EVERYWHERE
from rowlock.model.options import Options, refs_json, span
from rowlock.model.state import WAITING, State
from rowlock.store.jobs.claim import register_pairs
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rowlock.desk.guard import Guard
    from rowlock.desk.submit import Submit
    from rowlock.desk.visible_jobs import VisibleJobs
    from rowlock.model.job import Job
    from rowlock.model.queue_pair import Pair, Wake
    from rowlock.store.database import Database, Record

_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class JobEdit:
    """The changes of one edit; None stays as it is. args is decoded JSON, the options are checked."""

    args: Mapping[str, object] | None
    options: Options

    def audited(self, job: Job, args: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The changed values before and after, for the audit; secrets masked."""
        options = self.options
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        if args is not None:
            before["args"], after["args"] = dict(job.args), stored_args.shown(json.loads(args))
        if options.tags is not None:
            before["tags"], after["tags"] = list(job.tags), list(options.tags)
        if options.priority is not None:
            before["priority"], after["priority"] = job.priority, options.priority
        if options.run_at is not None or options.run_in is not None:
            before["run_after"] = job.run_after.isoformat()
        return before, after


class Editor:
    """Edits for one guard's principal."""

    def __init__(
        self,
        database: Callable[[], Database],
        wake: Wake,
        guard: Guard,
        visible_jobs: VisibleJobs,
        submit: Submit | None,
    ) -> None:
        self._open, self._wake, self._guard, self._visible_jobs, self._submit = (
            database,
            wake,
            guard,
            visible_jobs,
            submit,
        )

    async def edit(
        self, job_id: int | str, change: JobEdit, version: int | None, by: str | None, note: str | None
    ) -> Job:
        """Apply the changes. version: only if the job still has this seq; None: whatever it has."""
        for _ in range(_TRIES):
            found = await self._open().fetch("jobs_by_id", ids=[ids.parse(job_id)], **self._guard.visibility)
            if not found:
                raise await self._visible_jobs.missing(job_id)
            job = rows.job_of(found[0])
            if job.state not in WAITING:
                message = f"Cannot edit job {job.public_id}: it is {job.state}; only a waiting job can be edited."
                raise WrongState(message)
            if version is not None and job.seq != version:
                break
            done = await self._edited(job, _readable(found[0]["args"]), change, by, note)
            if done is None:
                return await self._visible_jobs.one(job_id)
            if done["found"]:
                # With other arguments another approval rule may fit, or none.
                asked = change.args is not None and done["state"] == State.PENDING
                approved = await self._open().fetch("auto_approve", ids=[job.id]) if asked else []
                await self._follow({**done, **approved[0]} if approved else done)
                return await self._visible_jobs.one(job_id)
        message = f"Job {ids.encode(ids.parse(job_id))} was changed meanwhile. Read it again, then edit it."
        raise WrongState(message)

    async def _edited(
        self, job: Job, before_args: Mapping[str, object], change: JobEdit, by: str | None, note: str | None
    ) -> Record | None:
        """The answer of the statement; None: the job has all of these values already, and nothing was written."""
        options, args, refs, answer_in = change.options, None, None, None
        if change.args is not None:
            encoded = await self._encoded(job, change.args)
            args, answer_in = encoded.over(before_args), encoded.answer_in
            refs = refs_json({**job.refs, **encoded.refs}) if encoded.refs else None
        before, after = change.audited(job, args)
        due = options.run_in is not None or options.run_at not in (None, job.run_after)
        same_args = args is None or _canonical(json.loads(args)) == _canonical(before_args)
        if not due and same_args and all(before[name] == after[name] for name in after if name != "args"):
            return None
        (done,) = await self._open().fetch_briefly(
            "edit",
            id=job.id,
            seq=job.seq,
            args=args,
            refs=refs,
            answer_in=answer_in,
            run_at=options.run_at,
            run_in=span(options.run_in, "run_in"),
            tags=None if options.tags is None else list(dict.fromkeys(options.tags)),
            priority=options.priority,
            before=as_json(before),
            after=as_json(after),
            **self._guard.signed("edit", by, note),
        )
        return done

    async def _encoded(self, job: Job, args: Mapping[str, object]) -> stored_args.Encoded:
        if self._submit is None:
            message = "This desk was made without an application and cannot write arguments. Use app.desk(principal)."
            raise ConfigurationError(message)
        encoded = await self._submit.encoded(job.kind, args)
        if encoded.gate_key is not None and encoded.gate_key != job.gate_key:
            message = (
                f"With these arguments job {job.public_id} would have to wait at the gate {encoded.gate_key!r}, not at "
                f"{job.gate_key!r}. Cancel it and submit another."
            )
            raise InvalidOption(message)
        if encoded.rate_keys:
            (row,) = await self._open().fetch("job_rates", id=job.id)
            if list(encoded.rate_keys) != row["rate_keys"]:
                message = (
                    f"With these arguments job {job.public_id} would be limited by {', '.join(encoded.rate_keys)}, not "
                    f"by {', '.join(row['rate_keys'] or ['nothing'])}. Cancel it and submit another."
                )
                raise InvalidOption(message)
        return encoded

    async def _follow(self, done: Mapping[str, Any] | Record) -> None:
        """Register the job's new pair before workers are woken for it; its place at a gate may be another job's now."""
        database = self._open()
        if done["state"] is None:
            return
        pair: Pair = (done["kind"], done["priority"], done["share"])
        await register_pairs(database, [pair])
        if done["state"] == State.QUEUED:
            self._wake([(pair, done["run_after"])])
        if done["promoted"]:
            await database.fetch("wake", channel=database.channel, payload=LOOK_EVERYWHERE)


def _readable(args: str) -> Mapping[str, object]:
    """Stored arguments; none where they cannot be read: an edit may replace them all the same."""
    try:
        return stored_json.read_object(args)
    except stored_json.UnreadableJson:
        return {}


def _canonical(value: object) -> str:
    """JSON in one spelling: in Python true equals 1, and 1 equals 1.0."""
    return json.dumps(value, sort_keys=True)
