"""Submit: from a request to a job, once per Idempotency-Key."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from rowlock.api.problems import Problem
from rowlock.desk.submit import Submitted
from rowlock.errors import JobNotFound
from rowlock.model.access import Permission
from rowlock.store.database import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.api.schemas.jobs import Submission
    from rowlock.app import Rowlock
    from rowlock.desk.access import Desk
    from rowlock.store.database import Record

_SCOPE: Final = "POST /jobs"
_KEEP: Final = timedelta(hours=24)
_AT_ONCE: Final = 2
"""Submissions with a key at a time: each holds one of the pool's connections while it may need another."""
_NOT_OPTIONS: Final = {"kind", "args"}


@dataclass(frozen=True, slots=True)
class Once:
    """What became of a submission. status: of the answer, before anybody waits for the job's end.

    replayed: its key was used before, for the same body; request: the parameters of its key.
    """

    submitted: Submitted
    status: int
    replayed: bool = False
    request: Mapping[str, object] | None = None


class Submissions:
    """Hands submissions to the desk of whoever asks."""

    def __init__(self, app: Rowlock) -> None:
        self._app = app
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def submit(self, desk: Desk, said: Submission, key: str | None) -> Once:
        """Enqueue the job, or find the one that this key has made."""
        options = _options(said)
        if key is None:
            return _made(await desk.jobs.submit(said.kind, said.args, **options))
        desk.guard.demand(Permission.SUBMIT, unsafe=True)
        async with self._places:
            return await self._once(desk, said, options, key)

    async def _once(self, desk: Desk, said: Submission, options: dict[str, Any], key: str) -> Once:
        database, who = self._app.database(), desk.principal
        values = {
            "scope": _SCOPE,
            "key": _hash(json.dumps([who.tenant, who.subject, key])),
            "digest": _hash(said.model_dump_json()),
        }
        async with database.connection(watched=True) as connection, connection.transaction():
            inside = Snapshot(database.statements, connection)
            if not (await inside.fetch("lock_request", **values))[0]["mine"]:
                raise Problem("in-flight", "A request with this Idempotency-Key is being answered. Ask again later.")
            used = {row["kind"]: row for row in await inside.fetch("find_request", **values)}
            if not used:
                once = _made(await desk.jobs.submit(said.kind, said.args, connection=connection, **options), values)
                kept = {"job_id": once.submitted.job.id, "status": once.status, "what": once.submitted.what}
                await inside.fetch("keep_request", keep_for=_KEEP, **kept, **values)
                return once
        if len(used) == 1:
            raise Problem("key-reused", "This Idempotency-Key was used for another body. Use a new key.")
        return await self._again(used[_SCOPE])

    async def _again(self, row: Record) -> Once:
        """Whoever made a job is told of it, whatever else they may read."""
        try:
            job = await self._app.jobs.get(row["job_id"])
        except JobNotFound as error:
            raise Problem("job-not-found", "The job of this Idempotency-Key was removed by its retention.") from error
        return Once(Submitted(job, row["what"] or "created"), row["status"] or HTTPStatus.ACCEPTED, replayed=True)

    async def answered(self, once: Once, status: int) -> None:
        """Have the same answer given to whoever repeats the request."""
        if once.request is not None and status != once.status:
            values = {"job_id": once.submitted.job.id, "status": status, **once.request}
            await self._app.database().fetch("answer_request", **values)


def _made(submitted: Submitted, request: Mapping[str, object] | None = None) -> Once:
    status = HTTPStatus.ACCEPTED if submitted.what == "created" else HTTPStatus.OK
    return Once(submitted, status, request=request)


def _options(said: Submission) -> dict[str, Any]:
    """The fields that were sent, as the desk's options."""
    given = {name: getattr(said, name) for name in said.model_fields_set - _NOT_OPTIONS}
    return {"on_conflict": said.on_conflict, **given}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
