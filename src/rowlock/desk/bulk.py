"""Bulk: the outcome of one order for many jobs, given in batches that lock few rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.errors import WriteRefused
from rowlock.model import ids
from rowlock.store.database import LOCKED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from rowlock.model.job import Job

_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class Bulk:
    """The outcome of an order for many jobs. refused: job id to the reason why that job did not change."""

    changed: Sequence[Job]
    refused: Mapping[int, str]

    @classmethod
    def of(
        cls, numbers: Sequence[int], jobs: Sequence[Job], changed: Collection[int], why: Callable[[Job], str]
    ) -> Bulk:
        """The outcome of one batch. numbers: the jobs named; jobs: those that exist; changed: those that took it."""
        there = {job.id for job in jobs}
        refused = {job.id: why(job) for job in jobs if job.id not in changed}
        return cls(
            [job for job in jobs if job.id in changed],
            refused | {number: f"there is no job {ids.encode(number)}" for number in numbers if number not in there},
        )


async def in_batches(
    job_ids: Iterable[int | str],
    order: Callable[[Sequence[int]], Awaitable[Bulk]],
) -> Bulk:
    """Give the order batch by batch, in id order, the order in which all writers lock; duplicate ids count once.

    A job whose row another transaction holds, or of which the database refuses the write, is left and reported.
    """
    numbers = sorted({ids.parse(job_id) for job_id in job_ids})
    changed: list[Job] = []
    refused: dict[int, str] = {}
    batches = [numbers[start : start + _BATCH] for start in range(0, len(numbers), _BATCH)][::-1]
    while batches:
        batch = batches.pop()
        try:
            done = await order(batch)
        except (WriteRefused, *LOCKED) as error:
            if len(batch) == 1:
                refused[batch[0]] = str(error)
            else:
                middle = len(batch) // 2
                batches += [batch[middle:], batch[:middle]]
            continue
        changed += done.changed
        refused |= done.refused
    return Bulk(changed, refused)
