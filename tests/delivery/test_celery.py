from __future__ import annotations

import asyncio
import threading

import pytest
from celery import Celery
from tests.delivery.brokers import silent_server
from tests.waiting import in_time, until

from rowlock import Rowlock
from rowlock.delivery.backend import TASK
from rowlock.delivery.celery import CeleryDelivery
from rowlock.errors import ConfigurationError

NOWHERE = "postgresql://nowhere/x"


def test_a_celery_application_is_needed() -> None:
    with pytest.raises(ConfigurationError, match=r"takes a Celery application.*got 'redis://localhost'"):
        CeleryDelivery("redis://localhost")


def test_the_task_acknowledges_before_it_runs() -> None:
    queue = Celery("test", broker="memory://")
    Rowlock(NOWHERE, delivery=CeleryDelivery(queue))
    assert queue.tasks[TASK].acks_late is False


def test_a_second_carrier_of_one_celery_application_has_a_task_of_its_own() -> None:
    queue = Celery("test", broker="memory://")
    Rowlock(NOWHERE, delivery=CeleryDelivery(queue))
    Rowlock(NOWHERE, delivery=CeleryDelivery(queue, name="other"))
    assert {TASK, f"{TASK}.other"} <= queue.tasks.keys()


async def test_without_a_result_backend_nothing_is_known_of_a_message() -> None:
    delivery = CeleryDelivery(Celery("test", broker="memory://"))
    assert await delivery.get_job_metadata("a") is None
    assert await delivery.get_job_result("a") is None
    assert list(await delivery.missing(["a"])) == []


async def test_messages_go_to_the_queue_of_their_lane() -> None:
    queue = Celery("test", broker="memory://")
    delivery = CeleryDelivery(queue, queue="all", queues={"reports": "few"})
    await delivery.enqueue("work", {"job_id": "1"}, queue_name="default")
    await delivery.enqueue("work", {"job_id": "2"}, queue_name="reports")
    with queue.connection_for_read() as connection:
        taken = {name: connection.SimpleQueue(name).get(block=False).payload[0] for name in ("all", "few")}
    assert taken == {"all": ["1"], "few": ["2"]}


async def test_a_broker_that_hangs_keeps_few_threads_and_none_of_the_event_loops() -> None:
    async with silent_server() as port:
        delivery = CeleryDelivery(Celery("test", broker=f"redis://127.0.0.1:{port}/0"))
        hanging = [asyncio.create_task(delivery.enqueue("work", {"job_id": "1"})) for _ in range(4)]
        for _ in range(36):
            with pytest.raises(TimeoutError, match="4 earlier calls still wait for its broker"):
                await in_time(delivery.enqueue("work", {"job_id": "1"}))
        waiting = [thread for thread in threading.enumerate() if thread.name == "rowlock-celery"]
        assert (len(waiting), all(thread.daemon for thread in waiting)) == (4, True)
        assert await in_time(asyncio.to_thread(lambda: 7)) == 7
        for call in hanging:
            call.cancel()
        await asyncio.wait(hanging)
    await until(lambda: not any(thread.name == "rowlock-celery" for thread in threading.enumerate()))
