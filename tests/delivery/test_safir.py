"""Against Safir's own MockArqQueue where Safir is installed (make test-safir), and against a queue of its shape.

Jobs that arq workers run through Safir's RedisArqQueue are in test_conformance.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    status: str = field(default="queued", kw_only=True)


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


def queues() -> list[Any]:
    """Queues that run nothing: the one above, and Safir's."""
    made: list[Any] = [Queue()]
    if find_spec("safir"):
        from safir.arq import MockArqQueue  # noqa: PLC0415 - where it is installed

        made.append(MockArqQueue())
    return made


def messages(queue: Any, name: str) -> dict[str, Any]:  # noqa: ANN401 - either queue
    kept: dict[str, dict[str, Any]] = getattr(queue, "_job_metadata", None) or queue.jobs
    return kept[name]


@pytest.mark.parametrize("queue", queues(), ids=lambda queue: type(queue).__name__)
async def test_messages_go_through_safirs_queue(queue: Any, database_url: str) -> None:  # noqa: ANN401 - either queue
    if hasattr(queue, "_job_metadata"):
        # Its own queues beside the default one have to be there before.
        queue._job_metadata["few"], queue._job_results["few"] = {}, {}
    delivery = SafirDelivery(queue, queues={"reports": "few"})
    app = Rowlock(database_url, delivery=delivery)

    @app.job
    async def work() -> int:
        return 5

    @app.job(lane="reports")
    async def report() -> None: ...

    job, other = await work.enqueue(), await report.enqueue()
    await app.close()
    assert [(one.name, one.args) for one in messages(queue, "arq:queue").values()] == [(TASK, (job.public_id,))]
    ((number_of_other, sent),) = messages(queue, "few").items()
    assert sent.args == (other.public_id,)
    number = str((await job.job()).backend_job_id)
    assert [number] == list(messages(queue, "arq:queue"))
    metadata = await delivery.get_job_metadata(number)
    assert metadata is not None
    assert metadata["queue_name"] == "arq:queue"
    assert (await delivery.get_job_metadata(number_of_other) or {})["queue_name"] == "few"
    if hasattr(queue, "set_complete"):
        assert await delivery.get_job_result(number) is None
        await queue.set_complete(number, result=5)
    assert await delivery.get_job_result(number) == 5
    assert await delivery.get_job_metadata("none") is None
    await app.close()


def test_something_else_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="takes an ArqQueue or MockArqQueue of Safir; got 5"):
        SafirDelivery(5)  # type: ignore[arg-type]


def test_worker_settings_belong_to_an_application() -> None:
    with pytest.raises(ConfigurationError, match=r"belongs to no application yet; pass it to Rowlock\(delivery=…\)"):
        SafirDelivery(Queue()).worker_settings()


async def test_messages_that_the_queue_lost_or_has_run_are_missing() -> None:
    queue = Queue()
    delivery = SafirDelivery(queue)
    number = str(await delivery.enqueue("work", {"job_id": "142C"}))
    assert await delivery.missing([number, "none"]) == ["none"]
    queue.jobs["arq:queue"][number].status = "complete"
    assert await delivery.missing([number]) == [number]


@pytest.mark.skipif(find_spec("safir") is None, reason="Safir needs Python 3.12 (make test-safir)")
def test_the_lines_of_the_guide_run() -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "delivery.md"
    (block,) = re.findall(r"^```py\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"Rowlock": Rowlock}
    exec(block, names)  # noqa: S102 - our own page
    assert [each.name for each in names["WorkerSettings"].functions] == [TASK]
    assert list(names["by_safir"].carriers) == [names["safir"]]
