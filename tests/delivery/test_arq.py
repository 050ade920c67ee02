from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from arq.connections import RedisSettings
from tests.delivery.brokers import silent_server
from tests.waiting import in_time, until

from rowlock import Rowlock
from rowlock.delivery.arq import ArqDelivery
from rowlock.delivery.backend import TASK
from rowlock.errors import ConfigurationError

NOWHERE = "postgresql://nowhere/x"


def test_settings_of_redis_are_arqs_own() -> None:
    with pytest.raises(ConfigurationError, match=r"takes arq's RedisSettings.*got 'redis://localhost'"):
        ArqDelivery("redis://localhost")  # type: ignore[arg-type]
    assert ArqDelivery().redis.host == "localhost"


def test_worker_settings_have_the_task_and_pass_options_on() -> None:
    async def mine(_ctx: object) -> None: ...

    delivery = ArqDelivery(RedisSettings(port=6390), queue="arq:jobs", queues={"reports": "arq:reports"})
    with pytest.raises(ConfigurationError, match="belongs to no application yet"):
        delivery.worker_settings()
    Rowlock(NOWHERE, delivery=delivery)
    settings = vars(delivery.worker_settings(max_jobs=3, functions=[mine]))
    assert (settings["queue_name"], settings["max_jobs"], settings["redis_settings"].port) == ("arq:jobs", 3, 6390)
    assert settings["functions"][0].name == TASK
    assert settings["functions"][1] is mine
    assert settings["functions"][0].timeout_s > 365 * 86_400
    assert vars(delivery.worker_settings(queue="arq:reports"))["queue_name"] == "arq:reports"


@pytest.mark.parametrize("extra", ["arq", "celery"])
def test_a_missing_extra_is_named_with_the_line_that_installs_it(extra: str) -> None:
    program = f"import sys; sys.modules['{extra}'] = None; import rowlock.delivery.{extra}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"pip install 'rowlock[{extra}]'" in done.stderr
    assert "MissingExtra" in done.stderr


async def test_a_redis_that_never_answered_is_asked_again_when_it_is_well() -> None:
    async with silent_server() as port:
        delivery = ArqDelivery(RedisSettings(port=port))
        delivery._open_within = 0.1
        first = asyncio.create_task(delivery.enqueue("work", {"job_id": "1"}))
        with pytest.raises(TimeoutError):
            await in_time(first)
        opening = delivery._pools[asyncio.get_running_loop()]
        delivery._open_within = 60
        again = asyncio.create_task(delivery.enqueue("work", {"job_id": "1"}))
        await until(lambda: delivery._pools[asyncio.get_running_loop()] is not opening)
        again.cancel()
        await in_time(delivery.close())
    with pytest.raises(asyncio.CancelledError):
        await again
