"""Functions of RQ queues on Rowlock, and beside the real RQ."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tests.contrib.moving.side_by_side import Folder, working
from tests.delivery.brokers import Redis, running
from tests.waiting import PATIENCE, until

from rowlock import ConfigurationError, InvalidOption, JobFailed, Rowlock
from rowlock.contrib.moving.rq import Job, Queue, Retry, RowlockConnection, job
from rowlock.errors import JobNotFound
from rowlock.model import ids

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2099, 1, 1, 12, tzinfo=UTC)
TRIES: list[int] = []


def add(x: int, y: int = 1) -> int:
    return x + y


def broken(kind: str = "") -> None:
    TRIES.append(len(kind))
    raise OSError(kind)


def other() -> None: ...


@pytest.fixture
def connection(rowlock: Rowlock) -> RowlockConnection:
    made = RowlockConnection(rowlock, queues=("high", "low"), clock=lambda: NOON)
    made.register(add, broken)
    TRIES.clear()
    return made


def test_a_registered_function_is_enqueued_and_run(rowlock: Rowlock, connection: RowlockConnection) -> None:
    queue = Queue("high", connection=connection)
    sent = queue.enqueue(add, 1, y=2, meta={"who": "ada"}, description="a sum")
    assert (sent.get_status(), sent.return_value(), sent.meta) == ("queued", None, {"who": "ada"})
    assert sent.job().kind == f"{__name__}.add/high"
    by_call = Queue(connection=connection).enqueue_call(add, args=(3,), kwargs={"y": 4})
    assert by_call.job().kind == f"{__name__}.add"
    with working(rowlock):
        assert sent.return_value(timeout=PATIENCE) == 3
        assert by_call.return_value(timeout=PATIENCE) == 7
        assert (sent.is_finished, sent.is_failed, sent.return_value()) == (True, False, 3)
        failing = queue.enqueue(broken, args=("a",))
        with pytest.raises(JobFailed):
            failing.return_value(timeout=PATIENCE)
        assert (failing.get_status(), failing.is_failed, TRIES) == ("failed", True, [1])
        assert "OSError" in str(failing.exc_info)
    assert Job.fetch(sent.id, connection).get_id() == sent.id
    with pytest.raises(JobNotFound):
        Job.fetch(ids.encode(10**9), connection)


def test_times_and_limits_reach_the_job(connection: RowlockConnection) -> None:
    queue = Queue(connection=connection)
    at = queue.enqueue_at(NOON + timedelta(hours=1), add, 1, ttl=7200)
    assert (at.job().run_after, at.job().expires_at) == (NOON + timedelta(hours=1), NOON + timedelta(hours=2))
    assert at.get_status() == "scheduled"
    at.cancel()
    assert at.get_status() == "canceled"
    after = queue.enqueue_in(timedelta(hours=1), add, 1).job()
    assert timedelta(minutes=59) < after.run_after - after.created_at <= timedelta(hours=1, seconds=1)


def test_a_call_brings_its_own_retry(rowlock: Rowlock, connection: RowlockConnection) -> None:
    queue = Queue(connection=connection)
    with working(rowlock):
        sent = queue.enqueue(broken, "ab", retry=Retry(max=2, interval=[0, 0]))
        with pytest.raises(JobFailed):
            sent.return_value(timeout=PATIENCE)
        assert sent.job().attempt == 3
        late = queue.enqueue(broken, "abc", retry=Retry(max=2, interval=[3600, 7200]))

        def waits() -> bool:
            found = late.job()
            return found.attempt == 1 and found.run_after - found.created_at > timedelta(minutes=59)

        asyncio.run(until(waits))
    assert late.get_status() == "scheduled"


def test_a_decorated_function_has_delay_and_its_own_queue(rowlock: Rowlock, connection: RowlockConnection) -> None:
    @job("low", connection=connection, retry=Retry(max=4, interval=5), ttl=60)
    def decorated(x: int) -> int:
        return x

    sent = decorated.delay(5)
    assert (sent.job().max_attempts, sent.job().expires_at is not None) == (5, True)
    assert rowlock.handlers[sent.job().kind].kind.lane == "low"
    assert decorated.enqueue(6).job().args == {"x": 6}
    assert decorated(7) == 7


def test_functions_with_a_time_limit_run_in_a_child_process(rowlock: Rowlock, connection: RowlockConnection) -> None:
    connection.register(other, timeout=60, retry=Retry(max=1))
    kinds = {name: handler.kind for name, handler in rowlock.handlers.items()}
    limited, plain = kinds[f"{__name__}.other"], kinds[f"{__name__}.add"]
    assert (limited.executor, limited.timeout, limited.on_worker_lost) == ("process", timedelta(minutes=1), "retry")
    assert (plain.executor, plain.timeout, plain.on_worker_lost) == ("thread", None, "fail")


def test_what_cannot_be_mapped_says_what_to_do(connection: RowlockConnection) -> None:
    queue = Queue(connection=connection)
    with pytest.raises(ConfigurationError, match=r"other is not registered.*connection\.register"):
        queue.enqueue(other)
    with pytest.raises(ConfigurationError, match=r"not registered"):
        queue.enqueue("os.system", "true")
    with pytest.raises(ConfigurationError, match=r"RowlockConnection\(Rowlock\(…\)\)"):
        RowlockConnection("redis")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"takes connection=RowlockConnection"):
        Queue("high")
    for option, message in (
        ({"job_timeout": 3}, "timeout=…"),
        ({"depends_on": 1}, "chain"),
        ({"job_id": "x"}, "idempotency_key"),
        ({"at_front": True}, "priority"),
        ({"result_ttl": 5}, "retention"),
    ):
        with pytest.raises(InvalidOption, match=message):
            queue.enqueue(add, 1, **option)
    with pytest.raises(InvalidOption, match="naive one is ambiguous"):
        queue.enqueue_at(datetime(2030, 1, 1), add, 1)  # noqa: DTZ001 - the mistake
    with pytest.raises(InvalidOption, match="workers know 'default', 'high', 'low'"):
        Queue("nowhere", connection=connection).enqueue(add, 1)
    for wrong in ({"max": 0}, {"max": 1, "interval": -1}, {"max": 1, "interval": []}):
        with pytest.raises(InvalidOption, match="Retry"):
            Retry(**wrong)


FUNCTIONS = """
import os
from pathlib import Path

def write(name):
    Path(name).write_text(os.environ["SIDE"])
"""


@pytest.mark.slow
async def test_an_rq_worker_finishes_its_queue_while_new_jobs_come_here(tmp_path: Path, database_url: str) -> None:
    with running(Redis(tmp_path / "redis")) as broker:
        folder = Folder(tmp_path, BROKER=broker.url, ROWLOCK_DATABASE_URL=database_url)
        folder.write(
            functions=FUNCTIONS,
            new_app="from functions import write\nfrom rowlock import Rowlock\n"
            "from rowlock.contrib.moving.rq import RowlockConnection\n"
            "rowlock = Rowlock()\nconnection = RowlockConnection(rowlock)\nconnection.register(write, timeout=50)\n",
        )
        before, after = tmp_path / "before", tmp_path / "after"
        folder.run(
            "import os, redis, rq, functions, new_app\n"
            "from rowlock.contrib.moving.rq import Queue\n"
            f"rq.Queue(connection=redis.from_url(os.environ['BROKER'])).enqueue(functions.write, {str(before)!r})\n"
            f"Queue(connection=new_app.connection).enqueue(functions.write, {str(after)!r})"
        )
        rq_worker = ["rq.cli", "worker", "--url", broker.url, "--worker-class", "rq.worker.SimpleWorker"]
        with folder.processes(rq=rq_worker, rowlock=["rowlock", "worker", "--app", "new_app:rowlock"]):
            await until(lambda: before.exists() and after.exists())
            await until(lambda: before.read_text() and after.read_text())
    assert (before.read_text(), after.read_text()) == ("rq", "rowlock")
