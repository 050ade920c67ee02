"""Hooks (on_success, on_failure, on_exhausted): functions that run after an outcome, each as a job of its own.

The hook's job is written in the transaction of the outcome it follows, so it runs even if the worker dies.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from typing_extensions import override

from rowlock.errors import JobNotFound
from rowlock.flow.kinds.codec import Codec
from rowlock.flow.kinds.handler import Handler
from rowlock.flow.run.inject import asks_for, plan_function
from rowlock.flow.run.middleware import HandlerWrapper, fills_in_thread
from rowlock.model.failure import Failure
from rowlock.model.hook import Hook, hook_kind, hooked_kind
from rowlock.model.kind import Kind, checked_name
from rowlock.model.retry import Retry
from rowlock.model.state import State

if TYPE_CHECKING:
    from rowlock.flow.kinds.handler import Call
    from rowlock.flow.progress.context import Context
    from rowlock.flow.run.inject import Function, InjectionPlan
    from rowlock.flow.run.middleware import Middleware
    from rowlock.flow.run.scope import WorkerScopes
    from rowlock.model.hook import HookEvent
    from rowlock.model.job import Job
    from rowlock.model.options import Span

F = TypeVar("F", bound=Callable[..., object])
Load = Callable[[int], Awaitable["Job"]]
AddHook = Callable[["HookEvent", "Function", "Retry | None", "Span | None"], None]
_RETENTION: Final = {"completed": timedelta(hours=1)}
_GIVEN: Final = frozenset({"Context", "SyncContext", "Job"})
_ARGUMENTS_LIMIT: Final = 1_000_000


class HookDecorator:
    """The decorator of one event of a task: @task.on_success, or @task.on_success(retry=…, timeout=…)."""

    __slots__ = ("_add", "_event")

    def __init__(self, event: HookEvent, add: AddHook) -> None:
        self._event, self._add = event, add

    @overload
    def __call__(self, function: F, /) -> F: ...
    @overload
    def __call__(self, /, *, retry: Retry | None = None, timeout: Span | None = None) -> Callable[[F], F]: ...
    def __call__(
        self, function: Function | None = None, /, *, retry: Retry | None = None, timeout: Span | None = None
    ) -> object:
        """Run the function after the event: at least once, even if this worker dies meanwhile.

        It may take the Job, the Failure (not on_success), the context and parameters marked with Depends().
        """

        def add(function: Function) -> Function:
            self._add(self._event, function, retry, timeout)
            return function

        return add if function is None else add(function)


def hook_arguments(
    job: int, fence: int, attempt: int = 0, state: str = "failed", error: dict[str, Any] | None = None
) -> None:
    """The signature of the arguments that the database writes for a hook's job, together with the outcome."""


class HookWrapper(HandlerWrapper):
    """Turns the stored arguments into the Job and the Failure that a hook takes."""

    def __init__(
        self, scopes: WorkerScopes, middleware: Sequence[Middleware], plan: InjectionPlan, load: Load, *, is_async: bool
    ) -> None:
        super().__init__(scopes, middleware, plan, is_async=is_async)
        self._load = load
        # Reading the job costs a statement, so only for hooks that take it.
        self._takes_job = asks_for(plan, "Job")

    @override
    async def _innermost(
        self, context: Context, args: tuple[object, ...], kwargs: Mapping[str, object], call: Call
    ) -> object:
        stored: dict[str, Any] = dict(kwargs)
        given = self._given(context)
        if self._takes_job or self._scopes.overrides:
            given["Job"] = await self._job(context, stored)
        given["Failure"] = Failure.of(stored.get("error"), stored["attempt"])
        await self._filled(given, (), {}, call)
        return None

    async def _job(self, context: Context, stored: Mapping[str, Any]) -> Job:
        try:
            return await self._load(stored["job"])
        except JobNotFound:
            # The job was removed before its hook ran: only what was stored with the outcome is left.
            return replace(
                context.job,
                id=stored["job"],
                kind=hooked_kind(context.job.kind),
                state=State(stored["state"]),
                attempt=stored["attempt"],
                fence=stored["fence"] + 1,
                args={},
            )


def hook_of(
    kind: Kind, event: HookEvent, function: Function, retry: Retry | None, timeout: timedelta | None
) -> tuple[Hook, Handler, InjectionPlan]:
    """The hook as its kind declares it, its handler without a wrapper, and the plan of its parameters."""
    is_async = inspect.iscoroutinefunction(function)
    given = _GIVEN if event == "on_success" else _GIVEN | {"Failure"}
    plan = plan_function(function, f"{kind.name}.{event}", is_async=is_async, given=given)
    policy = retry or Retry()
    hook = Hook(checked_name(hook_kind(kind.name, event)), policy.attempts)
    definition = Kind(
        hook.kind,
        retry=policy,
        timeout=timeout,
        executor="loop" if is_async else "thread",
        on_worker_lost="retry",
        retention=_RETENTION,
    )
    codec = Codec.of(hook_arguments, context_types=(), kind=hook.kind, limit=_ARGUMENTS_LIMIT)
    return hook, Handler(definition, codec, function if is_async else fills_in_thread(function)), plan
