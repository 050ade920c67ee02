"""Against a queue of the shape of Safir's; Safir itself needs other versions of Starlette than Rowlock's server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rowlock import Rowlock
from rowlock.delivery.backend import TASK
from rowlock.delivery.safir import SafirDelivery
from rowlock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


class JobNotFound(Exception):
    """Safir's, by name."""


@dataclass
class Metadata:
    id: str
    name: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    queue_name: str


@dataclass
class Result(Metadata):
    success: bool
    result: object


class Queue:
    """As Safir's MockArqQueue: keeps jobs by queue and runs none."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Metadata]] = {}

    async def enqueue(
        self, task_name: str, *task_args: object, _queue_name: str | None = None, **task_kwargs: object
    ) -> Metadata:
        queue = _queue_name or "arq:queue"
        kept = self.jobs.setdefault(queue, {})
        made = kept[f"{queue}-{len(kept)}"] = Metadata(f"{queue}-{len(kept)}", task_name, task_args, task_kwargs, queue)
        return made

    async def get_job_metadata(self, job_id: str, queue_name: str | None = None) -> Metadata:
        found = self.jobs.get(queue_name or "arq:queue", {}).get(job_id)
        if found is None:
            raise JobNotFound(job_id)
        return found

    async def get_job_result(self, job_id: str, queue_name: str | None = None) -> Result:
        found = await self.get_job_metadata(job_id, queue_name)
        return Result(**vars(found), success=True, result=5)


async def test_messages_go_through_safirs_queue(database_url: str) -> None:
    queue = Queue()
    delivery = SafirDelivery(queue, queues={"reports": "few"})
    app = Rowlock(database_url, delivery=delivery)

    @app.job
    async def work() -> int:
        return 5

    @app.job(lane="reports")
    async def report() -> None: ...

    job, other = await work.enqueue(), await report.enqueue()
    await app.close()
    assert [(one.name, one.args) for one in queue.jobs["arq:queue"].values()] == [(TASK, (job.public_id,))]
    assert [one.args for one in queue.jobs["few"].values()] == [(other.public_id,)]
    number = (await job.job()).backend_job_id
    assert number == "arq:queue-0"
    metadata = await delivery.get_job_metadata(number)
    assert metadata is not None
    assert metadata["queue_name"] == "arq:queue"
    assert (await delivery.get_job_metadata("few-0") or {})["queue_name"] == "few"
    assert await delivery.get_job_result(number) == 5
    assert await delivery.get_job_metadata("none") is None
    await app.close()


def test_something_else_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="takes an ArqQueue or MockArqQueue of Safir; got 5"):
        SafirDelivery(5)  # type: ignore[arg-type]
