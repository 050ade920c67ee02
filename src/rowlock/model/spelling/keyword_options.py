"""Keyword options of public calls: every unknown one is refused with a suggestion."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from rowlock.errors import InvalidOption
from rowlock.model.spelling.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

F = TypeVar("F", bound="Callable[..., Any]")
_ELSEWHERE: Final = {
    "queue": "lane",
    "queue_name": "lane",
    "countdown": "run_in",
    "delay": "run_in",
    "schedule_in": "run_in",
    "eta": "run_at",
    "scheduled_at": "run_at",
    "schedule_at": "run_at",
    "expires": "expires_in",
    "ttl": "expires_in",
    "time_limit": "timeout",
    "max_retries": "retry",
    "retries": "retry",
    "retry_policy": "retry",
    "retry_backoff": "retry",
    "retry_backoff_max": "retry",
    "retry_jitter": "retry",
    "default_retry_delay": "retry",
    "backoff": "retry",
    "autoretry_for": "retry",
    "job_timeout": "timeout",
    "soft_time_limit": "timeout",
    "schedule": "run_at",
    "bind": "ctx",
    "pass_context": "ctx",
    "ignore_result": "retention",
    "rate_limit": "rate",
    "unique": "unique_key",
    "queueing_lock": "unique_key",
    "lock": "gate",
    "concurrency": "gate",
    "task_id": "idempotency_key",
    "job_id": "idempotency_key",
    "labels": "tags",
    "metadata": "meta",
    "result_ttl": "retention",
    "keep_result": "retention",
}
"""Names of options in other job queues, and the option here that does the same."""
_INSTEAD: Final = {
    "retry": "Use retry=Retry(attempts=…, minimum=…, multiplier=…, jitter=…, on=(…,)).",
    "ctx": "A handler whose first parameter is `ctx: Context` (`SyncContext` in a plain function) gets the context.",
}
"""Options whose name alone would not say enough."""


def unknown_option(called: str, name: str, known: Collection[str], hints: Mapping[str, str] | None = None) -> str:
    """The message about an option that a call does not have. hints: for options that belong to another call."""
    hint = (hints or {}).get(name)
    meant = _ELSEWHERE.get(name)
    if hint is None and meant is not None:
        hint = _hint_for(meant, known, hints or {})
    if hint is None:
        near = closest(name, [*known, *(hints or {})])
        hint = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(sorted(known))}."
        hint = (hints or {}).get(near[0], hint) if near else hint
    return f"{called} has no option {name!r}. {hint}"


def name_here(name: str) -> str:
    """The name of the option here that another queue's option of that name stands for; the name itself if none does."""
    return _ELSEWHERE.get(name, name)


def _hint_for(meant: str, known: Collection[str], hints: Mapping[str, str]) -> str | None:
    if meant in hints:
        return f"Did you mean {meant!r}? {hints[meant]}"
    if meant == "ctx" or (meant in known and meant in _INSTEAD):
        return _INSTEAD[meant]
    return f"Did you mean {meant!r}?" if meant in known else None


def suggests_options(
    called: str, *, error: type[Exception] = InvalidOption, hints: Mapping[str, str] | None = None
) -> Callable[[F], F]:
    """Have a function refuse an unknown keyword with a suggestion; its signature stays as written."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: object, **kwargs: object) -> object:
            try:
                return function(*args, **kwargs)
            except TypeError:
                known = keyword_options(function)
                for name in kwargs:
                    if name not in known:
                        raise error(unknown_option(called, name, known, hints)) from None
                raise

        return cast("F", call)

    return decorate


def keyword_options(function: Callable[..., object]) -> list[str]:
    """The names of the parameters that can be passed by keyword, in their order."""
    parameters = inspect.signature(function).parameters.values()
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in by_name and parameter.name != "self"]
