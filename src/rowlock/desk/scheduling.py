"""Scheduling: app.schedule, which declares a schedule where its task is declared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from rowlock.errors import ConfigurationError
from rowlock.model.stored_args import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowlock.desk.schedules import Schedules
    from rowlock.model.options import Span
    from rowlock.model.schedule import Missed, Overlap
    from rowlock.model.stored_args import Encoded
    from rowlock.model.window import Window


@runtime_checkable
class Schedulable(Protocol):
    """A task, as far as a schedule must know it."""

    @property
    def kind(self) -> str:
        """The kind's name."""

    def encoded(self, args: Mapping[str, Any], /) -> Encoded:
        """Arguments as a job of the kind has them stored, checked."""


D = TypeVar("D", bound=Schedulable)


class Scheduling:
    """app.schedule: decorates a task, above @app.job, with a schedule. It may have several, each with its own name."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    def __call__(
        self,
        cron: str | None = None,
        /,
        *,
        every: Span | None = None,
        tz: str = "UTC",
        missed: Missed = "latest",
        most_missed: int = 100,
        overlap: Overlap = "queue",
        windows: Sequence[Window] = (),
        args: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        name: str | None = None,
    ) -> Callable[[D], D]:
        """cron: five fields, read in tz; every: an interval instead. name: the kind's unless given.

        missed: what is owed for slots that nobody could fire; overlap: what happens while the run before has not ended.
        The task stays as it is.
        """

        def declare(task: D) -> D:
            if not isinstance(task, Schedulable):
                message = f"@app.schedule stands above @app.job(…); got {task!r}, which is no task yet."
                raise ConfigurationError(message)
            self._schedules.define(
                name or task.kind,
                task.kind,
                cron,
                every=every,
                tz=tz,
                missed=missed,
                most_missed=most_missed,
                overlap=overlap,
                windows=windows,
                args=shown(json.loads(task.encoded(args or {}).text), reveal=True),
                options=options,
            )
            return task

        return declare
