"""What streams read at 100,000 rows: by index and in few buffers, whatever the settings and statistics."""

from __future__ import annotations

from typing import Any

from tests.factories import opened
from tests.query_plans import GUARDED, explain

FOLLOWED = 200


@GUARDED
async def test_a_look_at_followed_jobs_reads_each_by_key(loaded: str, guarded: bool) -> None:
    async with opened(loaded, guarded=guarded) as store:
        last = await store.value("SELECT max(id) FROM rowlock.jobs")
        job_ids = [last - 100 * n for n in range(FOLLOWED)]
        quiet: dict[str, Any] = {"ids": job_ids, "sinces": [0] * FOLLOWED, "reports": [None] * FOLLOWED, "most": 500}
        seqs = [(await store.row(job_id))["seq"] for job_id in job_ids]
        idle = await explain(store, "stream_look", seqs=seqs, **quiet)
        assert idle.whole_scans == []
        assert idle.buffers <= 8 * FOLLOWED
        first = await explain(store, "stream_look", seqs=[-1] * FOLLOWED, **quiet)
        assert first.whole_scans == []
        assert first.buffers <= 16 * FOLLOWED


@GUARDED
async def test_a_look_for_everybody_reads_only_what_is_recent(loaded: str, guarded: bool) -> None:
    async with opened(loaded, guarded=guarded) as store:
        # Not by the clock: on a quick machine the table itself was written a moment ago.
        since = await store.clock()
        for _ in range(10):
            await store.enqueue("k")
        about = {
            "since": since,
            "last_snapshot": await store.value("SELECT pg_current_snapshot()::text"),
            "n": 2000,
            "walk": 20_000,
            "seen": [],
            "sees_all": [True, False],
            "grants": [None, None],
            "tenants": [None, "acme"],
            "subjects": ["root", "ada"],
        }
        found = await explain(store, "feed_look", **about)
        assert found.whole_scans == []
        assert found.buffers <= 400
