"""CountedEnds: the counts of ended jobs are those of the ends that were seen, whatever ended them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.factories import Store
    from tests.machine.snapshot import Snapshot

_COUNTED: Final = """
SELECT coalesce(json_object_agg(t.state, t.n), '{}')::text FROM (
  SELECT c.state, sum(c.n)::integer AS n FROM {s}.stats_totals c
  WHERE c.measure <> 'wait' AND c.state <> '' GROUP BY 1) AS t
"""


class CountedEnds:
    """The ends of one example."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._unseen = 0
        """Ends that may have been taken back before anybody looked: by two actions at once."""

    def see(self, before: Snapshot, after: Snapshot, *, at_once: bool = False) -> None:
        """Note what ended between two looks. at_once: two actions were committed between them."""
        self._unseen += at_once
        for job in after.jobs.values():
            was = before.jobs.get(job.id)
            if job.state.is_final and (was is None or not was.state.is_final or was.fence != job.fence):
                self._seen[job.state] += 1

    async def check(self, store: Store) -> None:
        """Compare with what the database has counted."""
        counted = Counter[str](json.loads(await store.value(_COUNTED)))
        assert not self._seen - counted, f"ended {self._seen}, counted {counted}"
        assert (counted - self._seen).total() <= self._unseen, f"ended {self._seen}, counted {counted}"
