"""Mutations of what no other room breaks: one for each promise that only a worker and a producer together keep."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

BROKEN: Final = (
    "tests/races/test_failpoints.py::test_a_worker_that_loses_its_link_at_a_statement_loses_nothing_and_repeats_nothing"
)
MUTATIONS: Final = (
    Mutation(
        "invariant: a call inside a transaction is written outside of it",
        "flow/enqueue/producer.py",
        "        if connection is None or isinstance(connection, OwnTransaction):\n"
        "            receipt = await self._write(insert, connection)\n",
        "        if connection is None or connection is not None:\n            receipt = await self._write(insert)\n",
        ("tests/store/callers/test_joining.py::test_rollback_leaves_neither",),
    ),
    Mutation(
        "invariant: a failing job has one attempt more than it may",
        "flow/run/verdict.py",
        'if self._row["attempt"] >= most:',
        'if self._row["attempt"] > most:',
        ("tests/flow/run/test_retry_after_failure.py::test_a_failing_job_is_tried_until_its_attempts_are_used_up",),
    ),
    Mutation(
        "invariant: a lane has a slot more than it says",
        "flow/worker/slots.py",
        "return slots - self._in_use[lane]",
        "return slots + 1 - self._in_use[lane]",
        (
            "tests/flow/claim/test_lanes.py::test_slots_bound_what_one_worker_runs_at_once_and_lanes_do_not_wait_for_each_other",
        ),
    ),
    Mutation(
        "invariant: a beat does not tell that a lane was changed",
        "flow/worker/worker.py",
        "if beat.lanes_version != self._lanes_version:",
        "if beat.lanes_version < self._lanes_version:",
        ("tests/flow/claim/test_lanes.py::test_edits_drain_and_resume_apply_within_two_seconds[False]",),
    ),
    Mutation(
        "invariant: a beat does not tell of a cancel",
        "flow/worker/worker.py",
        "        for job_id in beat.cancelled:\n",
        "        for job_id in beat.cancelled[:0]:\n",
        ("tests/flow/worker/test_stopping.py::test_a_running_job_hears_of_its_cancel[False]",),
    ),
    Mutation(
        "invariant: a deploy costs its unfinished jobs an attempt",
        "flow/finish/finisher.py",
        'RequeueWrite("interrupted", _NOW, 1,',
        'RequeueWrite("interrupted", _NOW, 0,',
        ("tests/torture/test_processes.py::test_sigterm_drains_and_returns_what_is_unfinished",),
    ),
    Mutation(
        "invariant: a worker that is told to end goes on claiming",
        "flow/worker/claim_loop.py",
        "            if self.draining:\n                for row in rows:\n",
        "            if False:\n                for row in rows:\n",
        ("tests/flow/worker/test_worker.py::test_a_worker_that_stops_gives_back_what_a_late_claim_brings",),
    ),
    Mutation(
        "invariant: a claim whose answer was lost is never looked for",
        "flow/claim/in_flight.py",
        "            self.lose_answer()\n            raise\n",
        "            raise\n",
        (f"{BROKEN}[claim]",),
    ),
    Mutation(
        "invariant: a lane whose claim got no answer is not doubted because another got one",
        "flow/claim/claimer.py",
        "exc_info=_trace(failure))\n            self.in_flight.lose_answer()\n",
        "exc_info=_trace(failure))\n",
        (f"{BROKEN}[claim_fair]",),
    ),
)
