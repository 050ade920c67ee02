"""Faults: makes the next runs of a kind fail, around the real handler in the real engine."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from typing_extensions import override

from rowlock.errors import ClaimLost
from rowlock.flow.kinds.handler import Handler

if TYPE_CHECKING:
    from rowlock.app import Rowlock
    from rowlock.flow.kinds.handler import Call
    from rowlock.flow.progress.context import Context

Moment = Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class RaiseInstead:
    """The handler is not called; this error is raised instead."""

    error: BaseException | type[BaseException]


@dataclass(frozen=True, slots=True)
class LoseWorker:
    """The worker vanishes: before the handler is called, or when it has ended and nothing is written yet."""

    at: Moment


class Faults(Mapping[str, Handler]):
    """The application's handlers, each with its faults; later declared ones included."""

    def __init__(self, app: Rowlock) -> None:
        self._app = app
        self._next: defaultdict[str, deque[RaiseInstead | LoseWorker]] = defaultdict(deque)
        self.raised: dict[int, BaseException] = {}
        """By job id: the exception of its last run."""
        self.ghosts: list[int] = []
        """Workers that vanished: their rows are in the database, without heartbeats."""

    @override
    def __getitem__(self, kind: str) -> Handler:
        handler = self._app.handlers[kind]
        # Never in a child process: a test's mocks, faults and coverage would not be there.
        kind_here = replace(handler.kind, executor="loop" if handler.is_async else "thread")
        return replace(handler, kind=kind_here, wrapper=_FaultWrapper(handler, self))

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._app.handlers)

    @override
    def __len__(self) -> int:
        return len(self._app.handlers)

    def plan(self, kind: str, fault: RaiseInstead | LoseWorker, times: int) -> None:
        """Plan a fault for the next runs of the kind, after those planned before."""
        self._next[kind].extend([fault] * times)

    def take(self, kind: str) -> RaiseInstead | LoseWorker | None:
        """The fault of the run that begins now."""
        planned = self._next[kind]
        return planned.popleft() if planned else None

    @property
    def left(self) -> dict[str, int]:
        """Planned faults that have not happened, by kind."""
        return {kind: len(planned) for kind, planned in self._next.items() if planned}

    async def vanish(self, job_id: int) -> ClaimLost:
        """Have the job's worker vanish; returns the error that ends the attempt without a write."""
        self.ghosts += [row["worker"] for row in await self._app.database().fetch("lose_worker", id=job_id)]
        return ClaimLost(f"Job {job_id}: the test has its worker vanish here.")


class _FaultWrapper:
    """The handler's own wrapper, with the fault inside of it."""

    def __init__(self, handler: Handler, faults: Faults) -> None:
        self._handler, self._faults = handler, faults

    async def __call__(
        self, context: Context, args: tuple[object, ...], kwargs: Mapping[str, object], call: Call
    ) -> object:
        job_id, fault, wrapper = context.claim.job_id, self._faults.take(self._handler.name), self._handler.wrapper

        async def faulty(args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
            if isinstance(fault, RaiseInstead):
                raise fault.error
            if isinstance(fault, LoseWorker) and fault.at == "start":
                raise await self._faults.vanish(job_id)
            value = await call(args, kwargs)
            if isinstance(fault, LoseWorker):
                raise await self._faults.vanish(job_id)
            return value

        try:
            return await (faulty(args, kwargs) if wrapper is None else wrapper(context, args, kwargs, faulty))
        except BaseException as error:
            self._faults.raised[job_id] = error
            raise
