"""Enqueue middleware: functions of the application that see every enqueue before and after it is written."""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from rowlock.errors import InvalidOption
from rowlock.model import trace_context
from rowlock.model.options import Options
from rowlock.model.spelling.keyword_options import unknown_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

EnqueueMiddleware: TypeAlias = "Callable[[EnqueueCall], Iterator[None] | None]"
"""A function called before the jobs are written, or a generator that goes on after its yield when they are."""


class EnqueueCall:
    """One call of enqueue(), enqueue_many() or their blocking twins, as middleware sees it.

    calls: the arguments of each job by name, as the caller gave them; only to be read. ids: of the jobs, once they are
    written.
    """

    __slots__ = ("calls", "ids", "kind", "options")

    def __init__(self, kind: str, calls: Sequence[Mapping[str, object]], options: Options) -> None:
        self.kind, self.calls, self.options = kind, calls, options
        self.ids: tuple[int, ...] = ()

    def set(self, **options: Any) -> None:  # noqa: ANN401 - the options of task.options()
        """Enqueue with these options instead: priority, tags, meta and all others that task.options() takes."""
        known = Options.__dataclass_fields__
        for name in options:
            if name not in known:
                raise InvalidOption(unknown_option("set()", name, known))
        self.options = replace(self.options, **options)

    def add_meta(self, **values: object) -> None:
        """Add to the job's meta; a value under the same name is replaced."""
        self.set(meta={**(self.options.meta or {}), **values})

    def add_trace(self, headers: Mapping[str, str]) -> None:
        """Store the headers of a trace with the job, beside those of other tracers; no header: nothing is stored."""
        if headers:
            self.set(meta=trace_context.with_headers(self.options.meta, headers))

    def add_tags(self, *tags: str) -> None:
        """Add to the job's tags."""
        self.set(tags=[*(self.options.tags or ()), *tags])


Enqueuing = EnqueueCall
"""The former name of EnqueueCall, for code that imports it."""


@contextlib.contextmanager
def run_middleware(middleware: Sequence[EnqueueMiddleware], call: EnqueueCall) -> Iterator[EnqueueCall]:
    """Run every middleware around the block, the first registered outermost; one that raises refuses the enqueue."""
    failure: BaseException | None = None
    with contextlib.ExitStack() as stack:
        for function in middleware:
            if inspect.isgeneratorfunction(function):
                stack.enter_context(contextlib.contextmanager(function)(call))
            else:
                function(call)
        try:
            yield call
        except BaseException as error:
            failure = error
            raise
    if failure is not None:
        # A middleware swallowed the error; the caller has no job, so the caller gets the error all the same.
        raise failure
