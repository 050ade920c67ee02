"""Turns the options of @app.job(…) into a checked Kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rowlock.errors import ConfigurationError
from rowlock.model.kind import Kind
from rowlock.model.options import checked_priority, span
from rowlock.model.progress import log_level
from rowlock.model.retry import Retry
from rowlock.model.size import size
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.model.kind import Executor
    from rowlock.model.options import Span
    from rowlock.model.size import Size


def kind_of(name: str, says: dict[str, object], *, is_async: bool) -> Kind:
    """The Kind that these options describe; ConfigurationError says which option is wrong."""
    executor = _executor(name, says.pop("executor", None), is_async=is_async)
    retention = says.pop("retention", None)
    spans = {key: span(says.pop(key, None), key) for key in ("timeout", "expires_in", "max_age")}  # type: ignore[arg-type]  # checked by span
    lost = says.setdefault("on_worker_lost", "retry")
    if lost not in ("retry", "fail", "hold"):
        message = f'{name}: on_worker_lost must be "retry", "fail" or "hold"; got {lost!r}.'
        raise ConfigurationError(message)
    logs = says.pop("logs", None)
    checked_priority(says.get("priority", 0))  # type: ignore[arg-type]  # checked here
    says["retry"] = says.get("retry") or Retry()
    says["memory"] = _memory(name, says.get("memory"), executor)
    says["logs"] = None if logs is None else log_level(logs, f"{name}: logs")
    return Kind(name, executor=executor, retention=_retention(retention), **spans, **says)  # type: ignore[arg-type]  # typed by the overloads of job()


def _memory(name: str, asked: object, executor: Executor) -> int | None:
    if asked is None:
        return None
    if executor != "process":
        message = f'{name}: memory= needs executor="process": only a process of its own can be limited.'
        raise ConfigurationError(message)
    return size(cast("Size", asked), "memory")


def _executor(name: str, asked: object, *, is_async: bool) -> Executor:
    if asked is None:
        return "loop" if is_async else "thread"
    fitting = ("loop", "process") if is_async else ("thread", "process")
    if asked not in fitting:
        what = "an async def function" if is_async else "a plain function"
        message = f"{name}: the executor of {what} is {' or '.join(map(repr, fitting))}; got {asked!r}."
        raise ConfigurationError(message)
    return cast("Executor", asked)


def _retention(value: object) -> Mapping[str, object] | None:
    if value is None:
        return None
    rules = value if isinstance(value, dict) else {"*": value}
    for state in rules:
        if state != "*" and not (state in set(State) and State(state).is_final):
            message = (
                f"retention is a duration, or a mapping of final states (or '*') to durations; got the state {state!r}."
            )
            raise ConfigurationError(message)
    return {str(state): span(cast("Span", keep), "retention") for state, keep in rules.items()}
