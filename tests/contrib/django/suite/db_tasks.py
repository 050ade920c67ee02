"""The tasks that the tests of django-tasks-db enqueue; its source distribution does not have them."""

from __future__ import annotations

from django.tasks import TaskContext, task


@task()
def noop_task(*args: object, **kwargs: object) -> None:
    """Do nothing."""


@task()
async def noop_task_async(*args: object, **kwargs: object) -> None:
    """Do nothing, in a coroutine."""


@task()
def calculate_meaning_of_life() -> int:
    return 42


@task()
def failing_task_value_error() -> None:
    raise ValueError("This task failed due to ValueError")


@task()
def complex_exception() -> None:
    raise ValueError(ValueError("This task failed"))


@task()
def complex_return_value() -> object:
    return lambda: True


@task()
def exit_task() -> None:
    raise SystemExit(1)


@task(takes_context=True)
def get_task_id(context: TaskContext) -> str:
    return str(context.task_result.id)


@task(takes_context=True)
def test_context(context: TaskContext, attempt: int) -> None:
    assert isinstance(context, TaskContext)
    assert context.attempt == attempt
