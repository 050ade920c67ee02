"""Modules of Procrastinate tasks on Rowlock."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.contrib.moving.side_by_side import working
from tests.waiting import PATIENCE

from rowlock import ConfigurationError, InvalidOption, Retry, Rowlock
from rowlock.contrib.moving.procrastinate import AlreadyEnqueued, App, Blueprint, JobAborted, RetryStrategy
from rowlock.errors import UnknownKind
from rowlock.model.state import State

if TYPE_CHECKING:
    from rowlock.model.job import Job

LATER = datetime(2099, 1, 1, tzinfo=UTC)


@pytest.fixture
def app(rowlock: Rowlock) -> App:
    return App(rowlock, queues=("mails",))


def ended(rowlock: Rowlock, number: int) -> Job:
    return rowlock.sync.jobs.wait(number, timeout=PATIENCE)


def test_defer_returns_the_number_of_a_job_that_runs(rowlock: Rowlock, app: App) -> None:
    @app.task(name="sum", queue="sums")
    def add(a: int, b: int) -> int:
        return a + b

    @app.task(name="double", aliases=["twice"])
    async def double(a: int) -> int:
        return 2 * a

    with app.open(), working(rowlock):
        assert ended(rowlock, add.defer(a=1, b=2)).result == 3
        assert ended(rowlock, asyncio.run(double.defer_async(a=4))).result == 8
        numbers = add.batch_defer({"a": 1, "b": 1}, {"a": 2, "b": 2})
        assert [ended(rowlock, number).result for number in numbers] == [2, 4]
        assert ended(rowlock, app.configure_task("sum", task_kwargs={"a": 1}).defer(b=9)).result == 10
    assert add(1, 2) == 3
    assert add.task.kind == "sum"


def test_options_of_configure_reach_the_job(rowlock: Rowlock, app: App) -> None:
    @app.task(name="add", lock="ledger", queueing_lock="one", priority=3)
    def add(a: int = 0) -> None: ...

    job = rowlock.sync.jobs.get(add.defer(a=1))
    assert (job.gate_key, job.unique_key, job.priority) == ("ledger", "*:one", 3)
    with pytest.raises(AlreadyEnqueued) as conflict:
        add.defer(a=2)
    assert conflict.value.job_id == job.id
    options: dict[str, Any] = {"lock": "other", "queueing_lock": "two", "priority": 7, "queue": "mails"}
    job = rowlock.sync.jobs.get(add.configure(**options, schedule_at=LATER).defer())
    assert (job.kind, job.gate_key, job.unique_key, job.priority) == ("add/mails", "other", "*:two", 7)
    assert job.run_after == LATER
    soon = rowlock.sync.jobs.get(add.configure(queueing_lock="three", schedule_in={"minutes": 5}).defer())
    assert timedelta(minutes=4) < soon.run_after - soon.created_at <= timedelta(minutes=5, seconds=1)


def test_a_queueing_lock_is_free_once_its_job_runs(rowlock: Rowlock, app: App) -> None:
    started, release = threading.Event(), threading.Event()

    @app.task(name="slow", queueing_lock="one")
    def slow() -> None:
        started.set()
        release.wait(PATIENCE)

    first = slow.defer()
    with working(rowlock):
        assert started.wait(PATIENCE)
        second = slow.defer()
        release.set()
        assert [ended(rowlock, number).state for number in (first, second)] == [State.COMPLETED, State.COMPLETED]


def test_a_task_sees_its_job_in_procrastinates_words(rowlock: Rowlock, app: App) -> None:
    seen: list[Any] = []

    @app.task(name="look", pass_context=True, retry=RetryStrategy(max_attempts=1))
    def look(context: Any, a: int) -> None:  # noqa: ANN401, ARG001 - as people write it
        seen.append((context.job.task_name, context.job.task_kwargs, context.job.attempts, context.job.queue))
        assert (context.should_abort(), context.task.name) == (False, "look")
        if context.job.attempts == 0:
            raise OSError
        raise JobAborted("seen enough")

    with working(rowlock):
        job = ended(rowlock, look.configure(queue="mails").defer(a=1))
    assert (job.state, job.errors) == (State.CANCELLED, {"reason": "seen enough"})
    assert seen == [("look", {"a": 1}, 0, "mails"), ("look", {"a": 1}, 1, "mails")]


def test_retries_wait_as_procrastinate_says() -> None:
    policy = RetryStrategy(max_attempts=3, wait=1, linear_wait=10, exponential_wait=2).policy()
    pauses = [policy.delay(n, OSError()) for n in (1, 2, 3)]  # type: ignore[misc]  # it has one
    assert (policy.attempts, pauses) == (4, [3, 15, 29])
    assert RetryStrategy(retry_exceptions=[OSError]).policy().on == (OSError,)


@pytest.mark.parametrize(
    ("retry", "attempts", "lost"),
    [(False, 1, "hold"), (5, 6, "retry"), (True, 32_767, "retry"), (Retry(3), 3, "retry")],
)
def test_each_form_of_retry_is_read(rowlock: Rowlock, app: App, retry: Any, attempts: int, lost: str) -> None:  # noqa: ANN401 - each form
    @app.task(name="t", retry=retry)
    def t() -> None: ...

    kind = rowlock.handlers["t"].kind
    assert (kind.retry.attempts, kind.on_worker_lost) == (attempts, lost)


def test_tasks_of_a_blueprint_get_its_namespace(rowlock: Rowlock, app: App) -> None:
    cats = Blueprint()

    @cats.task(name="feed")
    def feed() -> None: ...

    with pytest.raises(ConfigurationError, match="add_tasks_from"):
        feed.defer()
    app.add_tasks_from(cats, namespace="cat")
    assert rowlock.sync.jobs.get(feed.defer()).kind == "cat/feed"
    assert rowlock.sync.jobs.get(app.configure_task("cat:feed").defer()).kind == "cat/feed"


def test_what_cannot_be_mapped_says_what_to_do(app: App) -> None:
    @app.task(name="t")
    def t() -> None: ...

    with pytest.raises(ConfigurationError, match=r"App\(Rowlock\(…\)\); got 'x'"):
        App("x")  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="schedule"):
        app.periodic(cron="* * * * *")  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match="Did you mean 'pass_context'"):
        app.task(pass_contxt=True)(t.func)
    with pytest.raises(ConfigurationError, match="retry is a boolean"):
        app.task(retry="often")(t.func)
    with pytest.raises(InvalidOption, match="both given"):
        t.configure(schedule_at=LATER, schedule_in={"hours": 1})
    with pytest.raises(InvalidOption, match=r"workers know 'default', 'mails'.*App\(app, queues="):
        t.configure(queue="nowhere").defer()
    with pytest.raises(UnknownKind, match="nothing"):
        app.configure_task("nothing")
