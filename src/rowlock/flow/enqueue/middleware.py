"""Passing: what middleware sees of an enqueue, before and after it is written."""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from rowlock.errors import InvalidOption
from rowlock.model.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

EnqueueMiddleware: TypeAlias = "Callable[[Enqueuing], Iterator[None] | None]"
"""A function called before the job is written, or a generator whose rest runs after its yield, when it is."""


class Enqueuing:
    """One call of enqueue(), enqueue_many() or their blocking twins, before and after it is written.

    calls: the arguments of each job, by name, as the caller gave them: to be read. ids: of the jobs, once written.
    """

    __slots__ = ("calls", "ids", "kind", "options")

    def __init__(self, kind: str, calls: Sequence[Mapping[str, object]], options: Options) -> None:
        self.kind, self.calls, self.options = kind, calls, options
        self.ids: tuple[int, ...] = ()

    def set(self, **options: Any) -> None:  # noqa: ANN401 - what task.options() takes
        """Enqueue with these options instead: priority, tags, meta and whatever else task.options() takes."""
        try:
            self.options = replace(self.options, **options)
        except TypeError:
            known = ", ".join(Options.__dataclass_fields__)
            message = f"set() takes the options of a job ({known}); got {', '.join(options)}."
            raise InvalidOption(message) from None

    def add_meta(self, **values: object) -> None:
        """Add to the job's meta; what is there under the same name is replaced."""
        self.set(meta={**(self.options.meta or {}), **values})

    def add_tags(self, *tags: str) -> None:
        """Add to the job's tags."""
        self.set(tags=[*(self.options.tags or ()), *tags])


@contextlib.contextmanager
def passing(middleware: Sequence[EnqueueMiddleware], enqueuing: Enqueuing) -> Iterator[Enqueuing]:
    """Let every middleware see it, the first registered outermost; one that raises refuses the enqueue."""
    failure: BaseException | None = None
    with contextlib.ExitStack() as stack:
        for function in middleware:
            if inspect.isgeneratorfunction(function):
                stack.enter_context(contextlib.contextmanager(function)(enqueuing))
            else:
                function(enqueuing)
        try:
            yield enqueuing
        except BaseException as error:
            failure = error
            raise
    if failure is not None:
        # A middleware swallowed it; a caller without its job must hear of it all the same.
        raise failure
