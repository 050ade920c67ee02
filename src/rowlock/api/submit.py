"""Submit: from a request to a job, once per Idempotency-Key."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rowlock.api.problems import Problem
from rowlock.errors import Forbidden, JobNotFound, UniqueConflict
from rowlock.model.access import Permission

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowlock.api.shapes import Submission
    from rowlock.app import Rowlock
    from rowlock.desk.access import Desk
    from rowlock.model.job import Job
    from rowlock.store.database import Connection, Record
    from rowlock.tasks import Enqueued

_SCOPE: Final = "POST /jobs"
_KEEP: Final = timedelta(hours=24)
_AT_ONCE: Final = 2
"""Submissions with a key at a time: each holds one of the pool's connections while it may need another."""
_SECONDS: Final = ("run_in", "expires_in", "max_age", "max_wait")
_PLAIN: Final = (
    "priority",
    "run_at",
    "max_attempts",
    "unique_key",
    "unique_scope",
    "on_conflict",
    "gate",
    "refs",
    "tags",
    "meta",
    "approval",
)


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a submission. replayed: its key was used before, for the same body."""

    job: Job
    what: str
    replayed: bool = False


class Submissions:
    """Enqueues for whoever asks: tenant and submitter are theirs unless they may act for others."""

    def __init__(self, app: Rowlock) -> None:
        self._app = app
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def submit(self, desk: Desk, said: Submission, key: str | None) -> Submitted:
        """Enqueue the job, or find the one that this key has made."""
        desk.guard.demand(Permission.SUBMIT, unsafe=True)
        options = _options(desk, said)
        try:
            if key is None:
                made = await self._enqueue(said, options, None)
                number, what = made.id, made.what
            else:
                async with self._places:
                    number, what = await self._once(desk, said, options, key)
        except UniqueConflict as error:
            job = await self._others(desk, error.job_id)
            raise Problem("unique-conflict", str(error), job_id=job.public_id) from error
        if what in ("created", "replayed"):
            return Submitted(await self._own(number), what, replayed=what == "replayed")
        return Submitted(await self._others(desk, number), what)

    async def _own(self, number: int) -> Job:
        """Whoever made a job is told of it, whatever else they may read."""
        try:
            return await self._app.jobs.get(number)
        except JobNotFound as error:
            raise Problem("job-not-found", "The job of this Idempotency-Key was removed by its retention.") from error

    async def _others(self, desk: Desk, number: int) -> Job:
        """The job that holds a unique key, unless it is somebody else's: then nothing is told of it."""
        try:
            return await desk.jobs.get(number)
        except (JobNotFound, Forbidden) as error:
            raise Problem("unique-conflict", "This unique_key is taken. Nothing was enqueued.") from error

    async def _once(self, desk: Desk, said: Submission, options: dict[str, Any], key: str) -> tuple[int, str]:
        database = self._app.database()
        who = json.dumps([desk.principal.tenant, desk.principal.subject, key])
        values = {
            "scope": _SCOPE,
            "key": hashlib.sha256(who.encode()).hexdigest(),
            "digest": hashlib.sha256(said.model_dump_json().encode()).hexdigest(),
        }

        async def ask(connection: Connection[Record], name: str, **more: object) -> list[Record]:
            statement = database.statements[name]
            return await connection.fetch(statement.dollar, *statement.bind({**values, **more}))

        async with database.connection() as connection, connection.transaction():
            if not (await ask(connection, "lock_request"))[0]["mine"]:
                raise Problem("in-flight", "A request with this Idempotency-Key is being answered. Ask again later.")
            used = {row["kind"]: row["job_id"] for row in await ask(connection, "find_request")}
            if used:
                if len(used) == 1:
                    raise Problem("key-reused", "This Idempotency-Key was used for another body. Use a new key.")
                return used[_SCOPE], "replayed"
            made = await self._enqueue(said, options, connection)
            await ask(connection, "keep_request", job_id=made.id, keep_for=_KEEP)
        return made.id, made.what

    async def _enqueue(self, said: Submission, options: dict[str, Any], connection: object | None) -> Enqueued[Any]:
        task = self._app.task(said.kind)
        named = dict(said.args)
        by_position = self._app.handlers[task.kind].codec.signature.positional_only
        positional = [named.pop(each.name) for each in by_position if each.name in named]
        enqueue: Callable[..., Awaitable[Enqueued[Any]]] = task.options(**options, connection=connection).enqueue
        return await enqueue(*positional, **named)


def _options(desk: Desk, said: Submission) -> dict[str, Any]:
    who = desk.principal
    tenant = said.tenant if "tenant" in said.model_fields_set else who.tenant
    submitter = said.submitted_by or who.subject
    if tenant != who.tenant or submitter != who.subject:
        desk.guard.demand(Permission.SUBMIT_AS)
    spans = {name: getattr(said, f"{name}_s") for name in _SECONDS}
    return {name: getattr(said, name) for name in _PLAIN} | spans | {"tenant": tenant, "submitted_by": submitter}
