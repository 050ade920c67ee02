"""Signals to jobs that wait for them with ctx.wait_for(), or will."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowlock.desk import audit
from rowlock.errors import InvalidOption, WrongState
from rowlock.model.keys import checked_key
from rowlock.model.options import json_text
from rowlock.model.released_jobs import parse_released

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.desk.guard import Guard
    from rowlock.desk.visible_jobs import VisibleJobs
    from rowlock.model.job import Job
    from rowlock.model.queue_pair import Wake
    from rowlock.store.database import Database

_LARGEST: Final = 1024 * 1024
"""Largest payload in bytes."""


class Signalled(NamedTuple):
    """The outcome of a signal. what: sent; or kept, if one of that name came before, as the first one counts."""

    job: Job
    what: str


class Signals:
    """Sends the signals of one principal."""

    def __init__(
        self,
        database: Callable[[], Database],
        wake: Wake,
        guard: Guard,
        visible_jobs: VisibleJobs,
    ) -> None:
        self._open, self._wake, self._guard, self._visible_jobs = database, wake, guard, visible_jobs

    async def send(self, job_id: int | str, name: str, payload: object, by: str | None, note: str | None) -> Signalled:
        """Store the signal with the job; a job that waits for it becomes due at once."""
        number = await self._visible_jobs.checked(job_id)
        job = await self._visible_jobs.one(number)
        (row,) = await self._open().fetch_briefly(
            "signal_send",
            id=number,
            name=checked_key(name, "name"),
            payload=_encoded(payload),
            by_whom=self._guard.name_of(by),
        )
        if row["what"] in ("final", "missing") or row["timed_out"]:
            why = "it has ended" if row["what"] != "kept" else "it has waited for it in vain, and its time was over"
            message = f"Cannot send {name!r} to job {job.public_id}: it is {row['state'] or job.state}; {why}."
            raise WrongState(message)
        self._wake((step.pair, step.run_after) for step in parse_released(row["released"]))
        if row["what"] == "sent":
            after = {"signal": name}
            await audit.record(self._open(), self._guard, "job.signal", f"job:{number}", after=after, by=by, note=note)
        return Signalled(await self._visible_jobs.one(number), row["what"])


def _encoded(payload: object) -> str:
    text = json_text(payload, "payload")
    if len(text) > _LARGEST:
        message = f"payload must be JSON of at most {_LARGEST:,} bytes; this takes {len(text):,}."
        raise InvalidOption(message)
    return text
