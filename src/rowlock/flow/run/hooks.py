"""Hooks: functions that follow an outcome. Each is a job of its own, written together with the outcome it follows."""

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
from rowlock.flow.run.inject import asks_for, given_or_needed
from rowlock.flow.run.middleware import Surround, inside
from rowlock.model.failure import Failure
from rowlock.model.hook import Hook, hook_kind, hooked_kind
from rowlock.model.kind import Kind, checked_name
from rowlock.model.retry import Retry
from rowlock.model.state import State

if TYPE_CHECKING:
    from rowlock.flow.kinds.handler import Call
    from rowlock.flow.progress.context import Context
    from rowlock.flow.run.inject import Function, Plan
    from rowlock.flow.run.middleware import Middleware
    from rowlock.flow.run.scope import Scopes
    from rowlock.model.hook import HookEvent
    from rowlock.model.job import Job
    from rowlock.model.options import Span

F = TypeVar("F", bound=Callable[..., object])
Load = Callable[[int], Awaitable["Job"]]
AddHook = Callable[["HookEvent", "Function", "Retry | None", "Span | None"], None]
_KEPT: Final = {"completed": timedelta(hours=1)}
_GIVEN: Final = frozenset({"Context", "SyncContext", "Job"})
_ARGUMENTS_LIMIT: Final = 1_000_000


class On:
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
        """Have the function run after the event: at least once, also when this worker dies meanwhile.

        It may ask for the Job, the Failure (not on_success), the context and whatever Depends() provides.
        """

        def add(function: Function) -> Function:
            self._add(self._event, function, retry, timeout)
            return function

        return add if function is None else add(function)


def recorded(
    job: int, fence: int, attempt: int = 0, state: str = "failed", error: dict[str, Any] | None = None
) -> None:
    """The arguments of a hook's own job, as the store writes them with the outcome."""


class HookSurround(Surround):
    """Turns the stored arguments into the job and the failure a hook asks for."""

    def __init__(
        self, scopes: Scopes, middleware: Sequence[Middleware], plan: Plan, load: Load, *, is_async: bool
    ) -> None:
        super().__init__(scopes, middleware, plan, is_async=is_async)
        self._load = load
        # Reading it costs a statement.
        self._asks_for_job = asks_for(plan, "Job")

    @override
    async def _innermost(
        self, context: Context, args: tuple[object, ...], kwargs: Mapping[str, object], call: Call
    ) -> object:
        told: dict[str, Any] = dict(kwargs)
        given = self._given(context)
        if self._asks_for_job or self._scopes.overrides:
            given["Job"] = await self._job(context, told)
        given["Failure"] = Failure.of(told.get("error"), told["attempt"])
        await self._filled(given, (), {}, call)
        return None

    async def _job(self, context: Context, told: Mapping[str, Any]) -> Job:
        try:
            return await self._load(told["job"])
        except JobNotFound:
            # Retention was quicker than the hook: what was recorded with the outcome is all that is left.
            return replace(
                context.job,
                id=told["job"],
                kind=hooked_kind(context.job.kind),
                state=State(told["state"]),
                attempt=told["attempt"],
                fence=told["fence"] + 1,
                args={},
            )


def hook_of(
    kind: Kind, event: HookEvent, function: Function, retry: Retry | None, timeout: timedelta | None
) -> tuple[Hook, Handler, Plan]:
    """A hook's mark on its kind, its handler without surroundings, and what fills its parameters."""
    is_async = inspect.iscoroutinefunction(function)
    given = _GIVEN if event == "on_success" else _GIVEN | {"Failure"}
    plan = given_or_needed(function, f"{kind.name}.{event}", is_async=is_async, given=given)
    policy = retry or Retry()
    hook = Hook(checked_name(hook_kind(kind.name, event)), policy.attempts)
    definition = Kind(
        hook.kind,
        retry=policy,
        timeout=timeout,
        executor="loop" if is_async else "thread",
        on_worker_lost="retry",
        retention=_KEPT,
    )
    codec = Codec.of(recorded, context_types=(), kind=hook.kind, limit=_ARGUMENTS_LIMIT)
    return hook, Handler(definition, codec, function if is_async else inside(function)), plan
