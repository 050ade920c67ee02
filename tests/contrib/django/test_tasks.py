"""The backend for Django's Tasks framework, on Django 6 and on the backport for Django 5.2."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.test import override_settings
from django.utils import timezone
from orders import tasks
from orders.models import Order

from rowlock import Retry
from rowlock.contrib.django import app
from rowlock.contrib.django.models import Job
from rowlock.contrib.django.task_framework import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
    task_finished,
    task_started,
)
from rowlock.errors import ConfigurationError
from rowlock.model import ids

pytestmark = pytest.mark.usefixtures("project")


def run(result: Any) -> Any:  # noqa: ANN401 - TaskResults
    """Let a worker of this process run the task; the result as it is then."""
    app.wait_for(app.run_job(result.id))
    result.refresh()
    return result


def test_a_task_is_a_job_named_by_its_path() -> None:
    order = Order.objects.create(customer="ada")
    result = tasks.thank.enqueue(order.pk)
    assert result.status == TaskResultStatus.READY
    job = app.sync.jobs.get(result.id)
    assert (job.kind, job.public_id, job.priority) == ("orders.tasks.thank", result.id, 0)
    assert run(result).return_value == "thank you, ada"
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.attempts == 1
    assert result == tasks.thank.get_result(result.id)


def test_an_async_task_uses_the_orm() -> None:
    order = Order.objects.create(customer="ada")
    assert run(tasks.thank_async.enqueue(order.pk)).return_value == "thank you, ada"


def test_a_task_is_committed_with_the_surrounding_transaction() -> None:
    with transaction.atomic():
        result = tasks.thank.enqueue(1)
        assert tasks.thank.get_result(result.id) == result
        assert app.sync.jobs.list() == []
        transaction.set_rollback(True)
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


def test_a_queue_is_a_lane_and_priorities_are_kept() -> None:
    result = tasks.email.enqueue("a", "b", c=1)
    job = app.sync.jobs.get(result.id)
    assert (job.kind, job.priority) == ("orders.tasks.email/emails", 7)
    assert app.handlers[job.kind].kind.lane == "emails"
    assert run(result).return_value == {"words": ["a", "b"], "c": 1}
    other = tasks.email.using(queue_name="default", priority=-100).enqueue()
    job = app.sync.jobs.get(other.id)
    assert (job.kind, job.priority) == ("orders.tasks.email", -100)
    assert tasks.email.get_result(other.id).task == tasks.email.using(queue_name="default", priority=-100)


def test_a_lane_can_be_chosen_for_a_queue() -> None:
    chosen = {"default": {**settings.TASKS["default"], "OPTIONS": {"lanes": {"emails": "slow"}}}}
    app.tasks.pop("orders.tasks.email/emails")
    with override_settings(TASKS=chosen):
        tasks.email.using(queue_name="emails")
        assert app.handlers["orders.tasks.email/emails"].kind.lane == "slow"
    app.tasks.pop("orders.tasks.email/emails")
    tasks.email.using(queue_name="emails")


def test_run_after_is_the_earliest_start() -> None:
    later = timezone.now() + timedelta(hours=1)
    result = tasks.thank.using(run_after=later).enqueue(1)
    assert app.sync.jobs.get(result.id).run_after == later
    assert tasks.thank.get_result(result.id).task.run_after == later


def test_a_context_tells_the_task_about_itself() -> None:
    result = run(tasks.about.enqueue())
    assert result.return_value["id"] == result.id
    assert result.return_value["attempt"] == 1
    assert result.return_value["queue"] == "default"
    assert result.worker_ids == result.return_value["workers"]


@pytest.mark.parametrize(
    ("task", "error"), [(tasks.explode, ValueError), (tasks.unstorable, TypeError), (tasks.leave, SystemExit)]
)
def test_a_failed_task_is_not_retried_and_keeps_its_error(task: Any, error: type[BaseException]) -> None:  # noqa: ANN401 - Tasks
    result = run(task.enqueue())
    assert result.status == TaskResultStatus.FAILED
    assert [each.exception_class for each in result.errors] == [error]
    assert "Traceback" in result.errors[0].traceback
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_a_task_can_be_retried() -> None:
    retried = {"default": {**settings.TASKS["default"], "OPTIONS": {"retry": Retry(2, minimum="0s", jitter="0s")}}}
    app.tasks.pop("orders.tasks.explode")
    finished: list[Any] = []
    task_finished.connect(note := lambda task_result, **_: finished.append(task_result.status), weak=False)
    with override_settings(TASKS=retried):
        result = run(tasks.explode.using().enqueue())
        assert (result.status, finished) == (TaskResultStatus.READY, [])
        assert run(result).status == TaskResultStatus.FAILED
    task_finished.disconnect(note)
    assert finished == [TaskResultStatus.FAILED]
    assert [each.exception_class for each in result.errors] == [ValueError, ValueError]
    assert result.attempts == 2
    app.tasks.pop("orders.tasks.explode")
    tasks.explode.using()


def test_a_cancelled_task_has_failed() -> None:
    result = tasks.thank.enqueue(1)
    app.sync.jobs.cancel(result.id, note="not needed")
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.is_finished
    for error in result.errors:
        assert error.exception_class


def test_signals_are_sent_where_the_task_is_enqueued_and_where_it_runs() -> None:
    seen: list[tuple[str, str]] = []
    for signal, name in ((task_enqueued, "enqueued"), (task_started, "started"), (task_finished, "finished")):
        signal.connect(
            lambda task_result, name=name, **_: seen.append((name, task_result.id)), weak=False, dispatch_uid=name
        )
    order = Order.objects.create(customer="ada")
    result = run(tasks.thank.enqueue(order.pk))
    for signal, name in ((task_enqueued, "enqueued"), (task_started, "started"), (task_finished, "finished")):
        signal.disconnect(dispatch_uid=name)
    assert seen == [("enqueued", result.id), ("started", result.id), ("finished", result.id)]


def test_results_of_other_jobs_do_not_exist() -> None:
    from orders.jobs import send_receipt  # noqa: PLC0415 - this test alone

    job = send_receipt.enqueue_sync(1)
    for strange in (job.public_id, ids.encode(12345), "123", "nonsense"):
        with pytest.raises(TaskResultDoesNotExist):
            tasks.thank.get_result(strange)


def test_arguments_must_be_json() -> None:
    with pytest.raises(TypeError, match=r"Unsupported type|not JSON serializable"):
        tasks.thank.enqueue(object())
    assert not Job.objects.exists()


def test_wrong_priorities_and_queues_are_refused() -> None:
    with pytest.raises(InvalidTask, match="between -100 and 100"):
        tasks.thank.using(priority=101)
    with pytest.raises(InvalidTask, match="Queue 'faxes' is not valid"):
        tasks.thank.using(queue_name="faxes")


def test_unknown_options_are_refused() -> None:
    wrong = {"default": {**settings.TASKS["default"], "OPTIONS": {"lane": "x"}}}
    with override_settings(TASKS=wrong), pytest.raises(ConfigurationError, match="has no 'lane'; there are lanes"):
        tasks.thank.using()


def test_a_task_where_no_worker_looks_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with override_settings(ROWLOCK={}):
        tasks.thank.enqueue(1)
        assert "runs only where" not in caplog.text
    result = lost_task().enqueue()
    assert "workers import the modules named jobs and tasks" in caplog.text
    assert result.status == TaskResultStatus.READY


def lost_task() -> Any:  # noqa: ANN401 - a Task
    return tasks.task(nowhere)


def nowhere() -> None:
    """A task of a module that workers do not import."""


async def test_tasks_are_enqueued_and_read_in_async_code() -> None:
    order = await Order.objects.acreate(customer="ada")
    result = await tasks.thank.aenqueue(order.pk)
    assert (await tasks.thank.aget_result(result.id)) == result
    await result.arefresh()
    result.refresh()  # blocks the loop, and works
    await app.run_job(result.id)
    await result.arefresh()
    assert result.return_value == "thank you, ada"
    await app.close()
