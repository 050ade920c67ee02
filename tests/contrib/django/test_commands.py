"""manage.py rowlock …, as processes of their own."""

from __future__ import annotations

import io
import json
import os
import signal
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from orders import tasks
from orders.jobs import (
    backend_pid,
    backend_pid_async,
    count_slowly,
    fail,
    guarded_sync,
    send_receipt,
    send_receipt_apart,
    send_receipt_async,
)
from orders.models import Order
from tests.contrib.django.conftest import manage
from tests.waiting import PATIENCE, eventually

from rowlock.contrib.django import app
from rowlock.contrib.django.models import Job, Worker

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Start = Callable[..., subprocess.Popen[bytes]]

pytestmark = [pytest.mark.usefixtures("project"), pytest.mark.slow]


def test_a_worker_runs_handlers_that_use_the_orm(workers: Start) -> None:
    order = Order.objects.create(customer="ada")
    made: list[Any] = [
        kind.enqueue_sync(order.pk) for kind in (send_receipt, send_receipt_async, send_receipt_apart, guarded_sync)
    ]
    failing = fail.enqueue_sync()
    worker = workers()
    results = [job.wait_sync(timeout=PATIENCE) for job in made]
    assert results[:2] == ["ada", "ada"]
    pid, name = results[2].split()
    assert (pid != str(worker.pid), name) == (True, "ada")
    order.refresh_from_db()
    assert order.receipts in (7, 8, 9, 10)
    app.wait_for(eventually(_complaints))
    assert Job.objects.get(pk=failing.public_id).state == "failed"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0


async def _complaints() -> bool:
    from asgiref.sync import sync_to_async  # noqa: PLC0415 - with Django

    return bool(await sync_to_async(Order.objects.filter(customer="complaint").exists)())


def test_handlers_leave_no_connection_behind(workers: Start) -> None:
    pids = [kind.enqueue_sync() for kind in (backend_pid, backend_pid_async)]
    workers()
    used = [job.wait_sync(timeout=PATIENCE) for job in pids]
    app.wait_for(eventually(lambda: _ended(used)))


async def _ended(pids: list[int]) -> bool:
    async with app.database().connection() as own:
        return not await own.fetch("SELECT 1 FROM pg_stat_activity WHERE pid = ANY ($1)", pids)


@pytest.mark.parametrize("what", ["job", "task"])
def test_a_killed_workers_job_is_run_by_another(what: str, workers: Start, tmp_path: Path, project_url: str) -> None:
    marker = str(tmp_path / "began")
    with connection.cursor() as cursor:  # a silent worker is lost sooner
        cursor.execute("INSERT INTO rowlock.lanes (name, kinds, stale_after) VALUES ('default', '{*}', '2 s')")
    job_id = count_slowly.enqueue_sync(marker).public_id if what == "job" else tasks.killed_once.enqueue(marker).id
    first = workers()
    app.wait_for(eventually(lambda: _exists(tmp_path / "began")))
    os.killpg(first.pid, signal.SIGKILL)
    second = workers("--processes", "1")
    job = app.wait_for(app.jobs.wait(job_id, timeout=PATIENCE))
    assert (job.state, job.losses) == ("completed", 1)
    if what == "task":
        assert tasks.killed_once.get_result(job_id).return_value == "survived"
    names = set(Worker.objects.values_list("name", flat=True))
    assert len(names) >= 2
    assert job.worker in names
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE) == 0
    shown = json.loads(manage(project_url, "rowlock", "jobs", "show", job_id, "--json").stdout)
    assert shown["state"] == "completed"


async def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: ASYNC240, PTH110 - a moment


def test_the_command_line_has_the_projects_application(project_url: str) -> None:
    job = send_receipt.enqueue_sync(1)
    done = manage(project_url, "rowlock", "jobs", "ls", "--json", "--settings", "shop.settings")
    assert done.returncode == 0, done.stderr
    assert job.public_id in done.stdout
    done = manage(project_url, "rowlock", "enqueue", "send_receipt", "--args", '{"order_id": "x"}')
    assert done.returncode != 0
    assert "order_id" in done.stderr
    assert "Usage: rowlock" in manage(project_url, "rowlock", "--help").stdout
    assert "manage.py rowlock worker" in manage(project_url, "help", "rowlock").stdout


def test_the_command_can_be_called_by_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_APP", "rowlock.contrib.django.project:app")
    job = send_receipt.enqueue_sync(1)
    with redirect_stdout(io.StringIO()) as printed:
        call_command("rowlock", "jobs", "show", job.public_id, "--json")
    assert json.loads(printed.getvalue())["kind"] == "send_receipt"
    with pytest.raises(CommandError, match="ended with the exit code"):
        call_command("rowlock", "jobs", "show", "nonsense")
