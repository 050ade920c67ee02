"""Mutations of what a move from another queue keeps: every job once, its options, and what cannot be mapped refused."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

_SQL: Final = "store/sql/procrastinate.sql"
_MOVE: Final = "contrib/moving/procrastinate_jobs.py"
_OF_MOVE: Final = "tests/contrib/moving/test_procrastinate_jobs.py::test_"
_CELERY: Final = "contrib/moving/celery.py"
_OF_CELERY: Final = "tests/contrib/moving/test_celery.py::test_"
_OF_KINDS: Final = "tests/contrib/moving/test_queue_kinds.py::test_"
_OF_RQ: Final = "tests/contrib/moving/test_rq.py::test_"
_OF_ARQ: Final = "tests/contrib/moving/test_arq.py::test_"
_BREAKS_OFF: Final = f"{_OF_MOVE}a_move_from_another_database_that_breaks_off_is_completed_by_the_next"

MUTATIONS: Final = (
    Mutation(
        "a moved job stays waiting in Procrastinate",
        _SQL,
        "SET status = 'cancelled',\n",
        "SET status = j.status,\n",
        (f"{_OF_MOVE}a_waiting_job_is_moved_with_everything_it_has",),
    ),
    Mutation(
        "a move takes the job that a worker of Procrastinate runs",
        _SQL,
        "WHERE j.id = ANY(:ids::bigint[]) AND j.status = 'todo'\n",
        "WHERE j.id = ANY(:ids::bigint[])\n",
        (f"{_OF_MOVE}only_a_job_that_still_waits_is_taken",),
    ),
    Mutation(
        "a job that is taken for another database has no mark",
        _SQL,
        "CASE WHEN :parked::boolean THEN",
        "CASE WHEN :parked::boolean AND false THEN",
        (f"{_BREAKS_OFF}[taken]",),
    ),
    Mutation(
        "a move that broke off is not completed",
        _MOVE,
        "            await self._resume()\n",
        "",
        (f"{_BREAKS_OFF}[taken]",),
    ),
    Mutation(
        "a job that was written twice by two moves is two jobs",
        _MOVE,
        "{_META}/{self._place}/{job.id}/{job.round}",
        "{_META}/{self._place}/{job.id}/{job.round}/{id(job)}",
        (f"{_BREAKS_OFF}[written]",),
    ),
    Mutation(
        "a job that was taken back is not moved again",
        _MOVE,
        "/{job.id}/{job.round}",
        "/{job.id}",
        (f"{_OF_MOVE}what_was_taken_back_can_be_moved_again",),
    ),
    Mutation(
        "a job that Rowlock refuses is lost",
        _MOVE,
        "            await table.give_back(list(refused))\n",
        "            pass\n",
        (f"{_OF_MOVE}a_job_that_rowlock_refuses_waits_there_again",),
    ),
    Mutation(
        "unknown tasks do not stop a move",
        _MOVE,
        "if not self._leave_unknown and any(",
        "if False and any(",
        (f"{_OF_MOVE}unknown_tasks_stop_the_move_before_it_begins_unless_they_may_be_left",),
    ),
    Mutation(
        "a dry run writes",
        _MOVE,
        "        if self.report.dry_run:\n            for made",
        "        if False:\n            for made",
        (f"{_OF_MOVE}a_dry_run_checks_every_job_and_writes_nothing",),
    ),
    Mutation(
        "a moved job gets all its attempts again",
        _MOVE,
        "max(1, attempts - job.attempts)",
        "max(1, attempts)",
        (f"{_OF_MOVE}attempts_that_were_used_there_are_used_here",),
    ),
    Mutation(
        "a Celery task that is acknowledged early runs again after its worker died",
        _CELERY,
        'on_worker_lost="retry" if late else "fail"',
        'on_worker_lost="retry"',
        (f"{_OF_CELERY}a_task_that_celery_acknowledges_early_is_not_run_twice",),
    ),
    Mutation(
        "self.retry() has no end",
        "contrib/moving/celery_running.py",
        "if limit is not None and self.request.retries >= limit:",
        "if False:",
        (f"{_OF_CELERY}self_refuses_what_a_retry_cannot_change",),
    ),
    Mutation(
        "every error of a Celery task is retried",
        _CELERY,
        "on=(RetryRequested, *self.autoretry_for)",
        "on=(Exception,)",
        (f"{_OF_CELERY}pauses_grow_as_celery_says",),
    ),
    Mutation(
        "an immutable signature does not wait for the one before",
        "contrib/moving/celery_canvas.py",
        "after=nodes if self.immutable else ()",
        "after=()",
        (f"{_OF_CELERY}a_step_that_fails_is_named_at_the_end_of_its_chain",),
    ),
    Mutation(
        "priorities of Celery's Redis broker keep their sign",
        _CELERY,
        'self.priority_sign = -1 if priorities == "redis" else 1',
        "self.priority_sign = 1",
        (f"{_OF_CELERY}low_numbers_first_as_celery_counts_with_redis",),
    ),
    Mutation(
        "a naive moment of expiry is taken for some time zone",
        "contrib/moving/queue_kinds.py",
        "    elif expires.utcoffset() is None:\n",
        "    elif False:\n",
        (f"{_OF_CELERY}a_call_that_cannot_be_mapped_says_what_to_do",),
    ),
    Mutation(
        "an expiry counts from the start instead of the call",
        "contrib/moving/queue_kinds.py",
        "left = span - wait if run_at is None",
        "left = span if run_at is None",
        (f"{_OF_KINDS}expiry_counts_from_the_earliest_start",),
    ),
    Mutation(
        "a queue that no worker knows is accepted",
        "contrib/moving/queue_kinds.py",
        "        if queue != self.default and queue not in self.queues:\n",
        "        if False:\n",
        (f"{_OF_KINDS}a_function_has_a_kind_and_a_lane_for_each_queue",),
    ),
    Mutation(
        "any function can be enqueued by its path",
        "contrib/moving/rq.py",
        "        if name not in self._names:\n",
        "        if False:\n",
        (f"{_OF_RQ}what_cannot_be_mapped_says_what_to_do",),
    ),
    Mutation(
        "the intervals of an RQ retry are not kept",
        "contrib/moving/rq.py",
        "    if intervals:\n",
        "    if False:\n",
        (f"{_OF_RQ}a_call_brings_its_own_retry",),
    ),
    Mutation(
        "an arq job id can be used twice",
        "contrib/moving/arq.py",
        "        if _job_id is not None:\n",
        "        if False:\n",
        (f"{_OF_ARQ}a_job_id_is_given_once_while_it_lives_and_within_keep_result",),
    ),
    Mutation(
        "arq settings that would change what runs are ignored",
        "contrib/moving/arq.py",
        "        if name in _REFUSED and value:\n",
        "        if False:\n",
        (f"{_OF_ARQ}what_cannot_be_mapped_says_what_to_do",),
    ),
    Mutation(
        "a queueing lock counts running jobs",
        "contrib/moving/procrastinate.py",
        '"unique_scope": "waiting"',
        '"unique_scope": "live"',
        ("tests/contrib/moving/test_procrastinate.py::test_a_queueing_lock_is_free_once_its_job_runs",),
    ),
)
