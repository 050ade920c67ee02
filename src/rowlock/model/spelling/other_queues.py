"""Calls that people know from other job queues, and the call of Rowlock that does the same."""

from __future__ import annotations

from typing import Final

_ENQUEUE: Final = "Call `await {task}.enqueue(…)`, or `{task}.enqueue_sync(…)` in blocking code."
_OPTIONS: Final = "Options go first: `await {task}.options(run_in=…, priority=…).enqueue(…)`."
_STEP: Final = "Call `{task}.step(…)`, and join steps with `chain(…)`, `group(…)` or a `Workflow`."
_DECLARE: Final = "Decorate the function with `@app.job`, where `app = Rowlock()`."

OF_A_TASK: Final = {
    "delay": _ENQUEUE,
    "send": _ENQUEUE,
    "kiq": _ENQUEUE,
    "perform_async": _ENQUEUE,
    "perform_later": _ENQUEUE,
    "defer": _ENQUEUE,
    "defer_async": "Call `await {task}.enqueue(…)`.",
    "batch_defer": "Call `await {task}.enqueue_many([…])`, with one mapping of arguments for each job.",
    "apply_async": f"{_ENQUEUE} {_OPTIONS}",
    "send_with_options": f"{_ENQUEUE} {_OPTIONS}",
    "schedule": f"{_OPTIONS} For a cron rule, decorate the task with `@app.schedule(…)`.",
    "configure": "Call `{task}.options(…)`.",
    "s": _STEP,
    "si": _STEP,
    "signature": _STEP,
    "apply": "A task can be called like its function: `{task}(…)` runs it here and now.",
    "retry": "Raise an exception, which the kind's `retry=Retry(…)` decides about, or return `Snooze(…)`.",
    "request": "A handler with a parameter `ctx: Context` finds its job in `ctx.job`.",
    "update_state": "A handler with a parameter `ctx: Context` calls `ctx.progress(…)`.",
}
"""Members of a task elsewhere. {task}: how the task is called here."""

OF_AN_APPLICATION: Final = {
    "enqueue": (
        "Decorate the function with `@app.job`, then call `await my_function.enqueue(…)`; by the name of a kind: "
        "`await app.jobs.submit(kind, args)`."
    ),
    "enqueue_in": "Decorate the function with `@app.job`, then call `my_function.options(run_in=…).enqueue(…)`.",
    "enqueue_at": "Decorate the function with `@app.job`, then call `my_function.options(run_at=…).enqueue(…)`.",
    "enqueue_job": "Call `await app.jobs.submit(kind, args)`.",
    "send_task": "Call `await app.jobs.submit(kind, args)`.",
    "configure_task": "Call `await app.jobs.submit(kind, args)`.",
    "actor": "Use `@app.job`.",
    "entrypoint": "Use `@app.job`.",
    "cron": "Decorate the task with `@app.schedule(…)`.",
    "periodic": "Decorate the task with `@app.schedule(…)`.",
    "periodic_task": "Decorate the task with `@app.schedule(…)`.",
    "conf": "Rowlock reads ROWLOCK_… variables, or `Rowlock(settings=Settings(…))`.",
    "autodiscover_tasks": "Import the modules that declare jobs beside the application.",
    "run_worker": "Use `async with app.worker():`, `app.start_worker()` or the command `rowlock worker`.",
    "run_worker_async": "Use `async with app.worker():` or the command `rowlock worker`.",
    "worker_main": "Use the command `rowlock worker`, or `app.start_worker()` in a process of yours.",
}
"""Members of an application elsewhere."""

OF_THE_PACKAGE: Final = {
    "shared_task": _DECLARE,
    "task": _DECLARE,
    "job": _DECLARE,
    "actor": _DECLARE,
    "Celery": "The application is called `Rowlock`.",
    "App": "The application is called `Rowlock`.",
    "Queue": "Jobs are enqueued by their tasks: `await my_function.enqueue(…)`. Lanes share out workers: `app.lanes`.",
    "Worker": "Use `async with app.worker():`, `app.start_worker()` or the command `rowlock worker`.",
    "chord": "Use `group(…)` and a step after it, or a `Workflow`.",
}
"""Names that other packages export."""

DECORATED_WITH_TASK: Final = (
    "app.task(kind) looks up a task by the name of its kind. To declare one, decorate the function with @app.job."
)

_GUIDES: Final = {
    "celery": frozenset(
        {"delay", "apply_async", "s", "si", "signature", "apply", "retry", "request", "update_state", "send_task"}
        | {"conf", "autodiscover_tasks", "worker_main", "periodic_task", "shared_task", "Celery", "chord"}
    ),
    "procrastinate": frozenset(
        {"defer", "defer_async", "batch_defer", "configure", "configure_task", "periodic", "App"}
        | {"run_worker", "run_worker_async"}
    ),
    "arq": frozenset({"enqueue_job"}),
    "rq": frozenset({"enqueue", "enqueue_in", "enqueue_at", "Queue", "job"}),
}
"""The guide about the queue that a word is known from, docs/howto/moving_from_….md."""


def unknown_member(owner: str, name: str, words: dict[str, str], task: str = "") -> str:
    """The message about a member that does not exist; it names Rowlock's own where the name is known from elsewhere."""
    hint = words.get(name)
    if hint is None:
        return f"{owner} has no attribute {name!r}."
    guide = next((queue for queue, known in _GUIDES.items() if name in known), None)
    moving = "" if guide is None else f" To move whole modules from there, see docs/howto/moving_from_{guide}.md."
    return f"{owner} has no attribute {name!r}. {hint.format(task=task)}{moving}"
