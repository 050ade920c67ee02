"""Modules of Celery tasks on Rowlock, and beside the real Celery."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.contrib.moving.side_by_side import Folder, working
from tests.delivery.brokers import Redis, running
from tests.waiting import PATIENCE, until

from rowlock import ConfigurationError, InvalidOption, InvalidWorkflow, JobFailed, Rowlock, WorkflowFailed
from rowlock.contrib.moving import celery as shim
from rowlock.contrib.moving.celery import Celery, Ignore, chain, chord, group, shared_task, signature
from rowlock.contrib.moving.celery_running import MaxRetriesExceededError
from rowlock.errors import ChainError, InvalidArguments, JobNotFound, UnknownKind
from rowlock.model import ids
from rowlock.model.state import State

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def nothing() -> None:
    """A function that a child process can import."""


class Tasks:
    """A module of tasks, as people have them."""

    def __init__(self, app: Celery) -> None:
        self.app = app
        self.tries: list[int] = []

        @app.task(name="shop.add")
        def add(x: int, y: int = 1) -> int:
            return x + y

        @app.task(name="shop.total")
        def total(numbers: list[int]) -> int:
            return sum(numbers)

        @app.task(name="shop.note", ignore_result=True)
        def note() -> object:
            return object()

        @app.task(name="shop.flaky", bind=True, max_retries=2)
        def flaky(self: Any, failures: int) -> str:  # noqa: ANN401 - Celery's self
            outer.tries.append(self.request.retries)
            if self.request.retries < failures:
                raise self.retry(exc=OSError("no line"), countdown=0)
            return f"{self.name} {self.request.delivery_info['routing_key']} {self.request.id}"

        @app.task(name="shop.refused")
        def refused() -> None:
            message = "never"
            raise ValueError(message)

        @app.task(name="shop.slow_line", autoretry_for=(OSError,), retry_kwargs={"max_retries": 1, "countdown": 0})
        def slow_line() -> None:
            outer.tries.append(1)
            raise OSError

        outer = self
        self.add, self.total, self.note, self.flaky = add, total, note, flaky
        self.refused, self.slow_line = refused, slow_line


@pytest.fixture
def tasks(rowlock: Rowlock) -> Tasks:
    return Tasks(Celery(rowlock, queues=("mail",), clock=lambda: NOON, random=Random(0)))  # noqa: S311 - jitter


# --- one task --------------------------------------------------------------------------------------------------------


def test_delay_enqueues_a_job_whose_handle_speaks_celery(rowlock: Rowlock, tasks: Tasks) -> None:
    sent = tasks.add.delay(2, y=3)
    assert (sent.state, sent.ready(), sent.result) == ("PENDING", False, None)
    assert rowlock.sync.jobs.get(sent.id).kind == "shop.add"
    with working(rowlock):
        assert sent.get(timeout=PATIENCE) == 5
        assert tasks.app.AsyncResult(sent.id) == sent
        assert (sent.status, sent.successful(), sent.failed(), sent.result) == ("SUCCESS", True, False, 5)
        failing = tasks.refused.delay()
        with pytest.raises(JobFailed, match="never"):
            failing.get(timeout=PATIENCE)
        assert isinstance(failing.get(propagate=False), JobFailed)
        assert (failing.state, failing.failed()) == ("FAILURE", True)
        assert "ValueError: never" in str(failing.traceback)
        assert tasks.note.delay().get(timeout=PATIENCE) is None
    with pytest.raises(JobNotFound):
        tasks.app.AsyncResult(ids.encode(10**9)).state  # noqa: B018 - it reads


def test_a_revoked_job_never_runs(tasks: Tasks) -> None:
    sent = tasks.add.delay(2)
    sent.revoke()
    assert (sent.state, sent.ready()) == ("REVOKED", True)


def test_options_of_apply_async_reach_the_job(rowlock: Rowlock, tasks: Tasks) -> None:
    eta = NOON + timedelta(hours=2)
    by_eta = tasks.add.apply_async((2,), {"y": 4}, eta=eta, expires=NOON + timedelta(hours=3), priority=9, queue="mail")
    job = rowlock.sync.jobs.get(by_eta.id)
    assert (job.kind, job.run_after, job.priority, job.args) == ("shop.add/mail", eta, 9, {"x": 2, "y": 4})
    assert job.expires_at == NOON + timedelta(hours=3)
    by_countdown = rowlock.sync.jobs.get(tasks.add.apply_async((2,), countdown=3600, expires=7200).id)
    assert timedelta(minutes=59) < by_countdown.run_after - by_countdown.created_at <= timedelta(hours=1, seconds=1)
    assert by_countdown.expires_at == by_countdown.run_after + timedelta(hours=1)


def test_low_numbers_first_as_celery_counts_with_redis(rowlock: Rowlock) -> None:
    tasks = Tasks(Celery(rowlock, priorities="redis"))
    assert rowlock.sync.jobs.get(tasks.add.apply_async((1,), priority=9).id).priority == -9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": datetime(2030, 1, 1)}, "naive one is ambiguous"),  # noqa: DTZ001 - the mistake
        ({"expires": datetime(2030, 1, 1)}, "naive one is ambiguous"),  # noqa: DTZ001 - the mistake
        ({"queue": "nowhere"}, r"workers know 'celery', 'mail'.*Celery\(app, queues="),
        ({"link": 1}, "chain"),
        ({"task_id": "mine"}, "idempotency_key"),
        ({"serializer": "pickle"}, "JSON"),
        ({"countdwn": 1}, "Did you mean 'countdown'"),
    ],
)
def test_a_call_that_cannot_be_mapped_says_what_to_do(tasks: Tasks, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        tasks.add.apply_async((1,), **options)


def test_arguments_are_checked_when_they_are_sent(tasks: Tasks) -> None:
    with pytest.raises(InvalidArguments, match="x"):
        tasks.add.delay("seven")
    with pytest.raises(InvalidArguments):
        tasks.add.delay(1, z=2)


def test_declarations_that_cannot_be_mapped_say_what_to_do(tasks: Tasks) -> None:
    app = tasks.app
    for options, message in (
        ({"base": object}, "A task is a function"),
        ({"rate_limit": "10/m"}, "rate=Rate"),
        ({"max_retris": 3}, "Did you mean 'max_retries'"),
        ({"retry_kwargs": {"queue": "x"}}, "retry_kwargs has max_retries and countdown"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            app.task(**options)(lambda: None)

    def stars(*args: int) -> None: ...
    def selfless() -> None: ...

    with pytest.raises(ConfigurationError, match=r"\*args cannot be stored"):
        app.task(name="shop.stars")(stars)
    with pytest.raises(ConfigurationError, match="Add a first parameter"):
        app.task(name="shop.selfless", bind=True)(selfless)
    with pytest.raises(ConfigurationError, match=r"Celery\(Rowlock\(…\)\); got 'shop'"):
        Celery("shop")  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="ROWLOCK_"):
        app.conf  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="runs it here"):
        tasks.add.apply((1,))
    with pytest.raises(UnknownKind, match=r"shop\.ad"):
        app.send_task("shop.ad")
    with pytest.raises(ConfigurationError, match="takes the packages"):
        app.autodiscover_tasks()


def test_a_task_can_be_sent_by_its_name(rowlock: Rowlock, tasks: Tasks) -> None:
    sent = tasks.app.send_task("shop.add", (1,), {"y": 2}, countdown=60)
    assert rowlock.sync.jobs.get(sent.id).args == {"x": 1, "y": 2}


# --- retries ---------------------------------------------------------------------------------------------------------


def test_retry_runs_the_job_again_until_its_retries_are_used_up(rowlock: Rowlock, tasks: Tasks) -> None:
    with working(rowlock):
        sent = tasks.flaky.delay(2)
        assert sent.get(timeout=PATIENCE) == f"shop.flaky celery {sent.id}"
        assert tasks.tries == [0, 1, 2]
        lasting = tasks.flaky.delay(9)
        with pytest.raises(JobFailed, match="no line"):
            lasting.get(timeout=PATIENCE)
    job = rowlock.sync.jobs.get(lasting.id)
    assert (job.attempt, job.errors["type"]) == (3, "OSError")  # type: ignore[index]


def test_exceptions_of_autoretry_for_are_retried_and_no_others(rowlock: Rowlock, tasks: Tasks) -> None:
    with working(rowlock):
        line, other = tasks.slow_line.delay(), tasks.refused.delay()
        assert isinstance(line.get(PATIENCE, propagate=False), JobFailed)
        assert isinstance(other.get(PATIENCE, propagate=False), JobFailed)
    assert tasks.tries == [1, 1]
    assert rowlock.sync.jobs.get(other.id).attempt == 1


def test_pauses_grow_as_celery_says() -> None:
    def pauses(**options: Any) -> list[float]:  # noqa: ANN401 - Celery's
        declared = shim._Declared(print, name="x", **options)
        policy = declared.retry(Random(1))  # noqa: S311 - jitter
        found = [policy.next_delay(n, OSError(), Random(1)) for n in range(1, policy.attempts + 1)]  # noqa: S311
        return [each.total_seconds() for each in found if each is not None]

    assert pauses(autoretry_for=(OSError,)) == [180, 180, 180]
    backoff = {"autoretry_for": (OSError,), "retry_backoff": 2, "retry_backoff_max": 5}
    assert pauses(**backoff, retry_jitter=False) == [2, 4, 5]
    assert all(0 <= each <= 5 for each in pauses(**backoff))
    assert pauses() == []
    assert pauses(autoretry_for=(Exception,), dont_autoretry_for=(OSError,)) == []
    assert len(pauses(autoretry_for=(OSError,), max_retries=5, retry_kwargs={"max_retries": 2})) == 2


def test_a_direct_call_runs_here(tasks: Tasks) -> None:
    assert tasks.add(2, 3) == 5
    with pytest.raises(OSError, match="no line"):
        tasks.flaky(1)


def test_self_refuses_what_a_retry_cannot_change(rowlock: Rowlock) -> None:
    app = Celery(rowlock)
    seen: list[str] = []

    @app.task(name="t", bind=True, max_retries=0)
    def t(self: Any) -> None:  # noqa: ANN401 - Celery's self
        for wrong in ({"args": (1,)}, {"queue": "x"}, {"max_retries": 9}, {"eta": datetime(2030, 1, 1)}):  # noqa: DTZ001
            try:
                self.retry(**wrong)
            except (InvalidOption, ConfigurationError, MaxRetriesExceededError) as error:
                seen.append(str(error))
        self.update_state(state="PROGRESS", meta={"current": 3, "total": 10, "status": "mails"})
        try:
            self.update_state(state="MINE", meta={"x": 1})
        except InvalidOption as error:
            seen.append(str(error))
        raise Ignore("enough")

    sent = t.delay()
    with working(rowlock):
        sent.get(PATIENCE, propagate=False)
    job = rowlock.sync.jobs.get(sent.id)
    assert (job.state, job.errors) == (State.CANCELLED, {"reason": "enough"})
    assert job.progress is not None
    assert (job.progress.done, job.progress.total, job.progress.message) == (3, 10, "mails")
    for part, text in zip(
        ("got args", "got queue", "max_retries=9", "was retried 0 times", "update_state() reports progress"),
        seen,
        strict=True,
    ):
        assert part in text


def test_a_task_that_celery_acknowledges_early_is_not_run_twice(rowlock: Rowlock) -> None:
    app = Celery(rowlock)

    @app.task(name="once")
    def once() -> None: ...

    app.task(name="again", acks_late=True, time_limit=60)(nothing)
    kinds = {name: handler.kind for name, handler in rowlock.handlers.items()}
    assert (kinds["once"].on_worker_lost, kinds["once"].executor) == ("fail", "thread")
    assert (kinds["again"].on_worker_lost, kinds["again"].executor) == ("retry", "process")
    assert kinds["again"].timeout == timedelta(minutes=1)


# --- canvas ----------------------------------------------------------------------------------------------------------


def test_chain_group_and_chord(rowlock: Rowlock, tasks: Tasks) -> None:
    add, total = tasks.add, tasks.total
    with working(rowlock):
        assert chain(add.s(1, 2), add.s(10), add.s(100)).delay().get(timeout=PATIENCE) == 113
        assert (add.s(1, 2) | add.s(4)).apply_async(countdown=0).get(timeout=PATIENCE) == 7
        both = group(add.s(n, n) for n in range(3)).delay()
        assert both.get(timeout=PATIENCE) == [0, 2, 4]
        assert (both.ready(), both.successful(), both.completed_count(), len(both)) == (True, True, 3, 3)
        assert chord([add.s(1, 1), add.s(2, 2)])(total.s()).get(timeout=PATIENCE) == 6
        assert chord((add.s(1, 1), chain(add.s(1, 2), add.s(3))), total.s()).delay().get(timeout=PATIENCE) == 8
        assert (add.s(1) | group(add.s(10), add.s(20)) | total.s()).delay().get(timeout=PATIENCE) == 34
        assert chain(add.s(1, 2), add.si(5, 5)).delay().get(timeout=PATIENCE) == 10
        assert chain(add.s(y=3)).delay(4).get(timeout=PATIENCE) == 7
        assert chain(add.s(2), add.s(3)).delay(1).get(timeout=PATIENCE) == 6
        assert add.s(2).set(queue="mail").delay(1).get(timeout=PATIENCE) == 3


def test_a_step_that_fails_is_named_at_the_end_of_its_chain(rowlock: Rowlock, tasks: Tasks) -> None:
    with working(rowlock):
        broken = chain(tasks.refused.si(), tasks.add.si(1, 2)).delay()
        with pytest.raises(WorkflowFailed, match="never"):
            broken.get(timeout=PATIENCE)
        assert broken.state == "REVOKED"
        parts = group(tasks.refused.si(), tasks.add.si(1, 2)).delay()
        with pytest.raises(WorkflowFailed, match="never"):
            parts.get(timeout=PATIENCE)
        errors = parts.get(PATIENCE, propagate=False)
        assert (type(errors[0]), errors[1], parts.failed()) == (JobFailed, 3, True)


def test_compositions_that_cannot_be_mapped_say_why(tasks: Tasks) -> None:
    with pytest.raises(InvalidWorkflow, match="at least one signature"):
        group()
    with pytest.raises(InvalidWorkflow, match=r"Expected signatures such as add.s\(2, 3\)"):
        chain(tasks.add, tasks.add.s(1))
    with pytest.raises(ChainError, match="ends in a group"):
        group(chain(tasks.add.s(1), group(tasks.add.s(1), tasks.add.s(2)))).delay()
    with pytest.raises(InvalidOption, match="Use countdown"):
        chain(tasks.add.s(1).set(eta=NOON), tasks.add.s(1)).delay()


# --- shared tasks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def nothing_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim, "_SHARED", shim._SharedTasks())


@pytest.mark.usefixtures("nothing_shared")
def test_a_shared_task_belongs_to_applications_made_before_and_after_it(rowlock: Rowlock) -> None:
    @shared_task
    def early(x: int) -> int:
        return x

    with pytest.raises(ConfigurationError, match="has been made yet"):
        early.delay(1)
    app = Celery(rowlock)

    @shared_task(name="late", bind=True)
    def late(self: Any, x: int) -> str:  # noqa: ANN401 - Celery's self
        return f"{self.name} {x}"

    assert shim.current_app() is app
    with working(rowlock):
        assert early.delay(1).get(timeout=PATIENCE) == 1
        assert signature("late", (2,)).delay().get(timeout=PATIENCE) == "late 2"
        sent = late.s(3).delay()
        assert shim.AsyncResult(sent.id).get(timeout=PATIENCE) == "late 3"
    assert early(5) == 5
    with pytest.raises(UnknownKind, match="missing"):
        signature("missing")


# --- both at once ----------------------------------------------------------------------------------------------------

OLD = """
import os
from pathlib import Path
{imports}

@shared_task(name="shop.write", bind=True, max_retries=3, soft_time_limit=50)
def write(self, name):
    if self.request.retries == 0:
        raise self.retry(countdown=0)
    Path(name).write_text(os.environ["SIDE"])
"""


@pytest.mark.slow
async def test_a_celery_worker_finishes_its_queue_while_new_jobs_come_here(tmp_path: Path, database_url: str) -> None:
    """One module of tasks with two import lines: what was sent to Redis runs there, what is sent now runs here.

    Its time limit has it run in a child process.
    """
    with running(Redis(tmp_path / "redis")) as broker:
        folder = Folder(tmp_path, BROKER=broker.url, ROWLOCK_DATABASE_URL=database_url)
        folder.write(
            old=OLD.format(imports="from celery import shared_task"),
            new=OLD.format(imports="from rowlock.contrib.moving.celery import shared_task"),
            old_app="import os, celery\napp = celery.Celery('shop', broker=os.environ['BROKER'])\nimport old\n",
            new_app="from rowlock import Rowlock\nfrom rowlock.contrib.moving.celery import Celery\n"
            "rowlock = Rowlock()\napp = Celery(rowlock)\nimport new\n",
        )
        before, after = tmp_path / "before", tmp_path / "after"
        folder.run(f"import old_app, old; old.write.delay({str(before)!r})")
        folder.run(f"import new_app, new; new.write.delay({str(after)!r})")
        celery = ["celery", "-A", "old_app", "worker", "--pool", "solo"]
        with folder.processes(celery=celery, rowlock=["rowlock", "worker", "--app", "new_app:rowlock"]):
            await until(lambda: before.exists() and after.exists())
            await until(lambda: before.read_text() and after.read_text())
    assert (before.read_text(), after.read_text()) == ("celery", "rowlock")
