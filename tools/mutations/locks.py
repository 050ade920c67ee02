"""Mutations of locks and keys."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation, migration

LOCKS: Final = "flow/locks/process_locks.py"
ENQUEUE: Final = "store/sql/enqueue.sql"
OF_LOCKS: Final = "tests/flow/locks/test_process_locks.py::test_"
OF_KEYS: Final = "tests/flow/enqueue/test_enqueue_unique.py::test_"

MUTATIONS: Final = (
    Mutation(
        "those of one process do not take turns",
        LOCKS,
        "            await queue.lock.acquire()\n",
        "            queue.lock = asyncio.Lock()\n            await queue.lock.acquire()\n",
        (f"{OF_LOCKS}fifty_tasks_of_two_connections_enter_one_at_a_time",),
    ),
    Mutation(
        "a lost lock is not told",
        LOCKS,
        "        for held in [held for held in self._held if held.session is session]:",
        "        for held in []:",
        (f"{OF_LOCKS}a_broken_connection_is_told_to_the_holder_and_not_to_those_who_wait",),
    ),
    Mutation(
        "a release tells nobody",
        migration("lock_turns"),
        "IF heir <> p_session AND pg_notification_queue_usage() < 0.9 THEN",
        "IF false THEN",
        (f"{OF_LOCKS}a_release_reaches_another_process_in_milliseconds",),
    ),
    Mutation(
        "a late message about a lock lets its process go first again",
        LOCKS,
        "released.next_n <= queue.served",
        "False",
        (f"{OF_LOCKS}a_late_message_about_a_turn_that_was_taken_does_not_jump_the_queue",),
    ),
    Mutation(
        "a process that released a lock yields although its turn has come again",
        LOCKS,
        " and queue.called <= held.n:",
        ":",
        (f"{OF_LOCKS}a_message_that_overtakes_the_answer_to_a_release_is_not_forgotten",),
    ),
    Mutation(
        "who gives up leaves his traces",
        LOCKS,
        "            self._spawn(self._undo(acquisition))\n",
        "",
        (f"{OF_LOCKS}who_gives_up_leaves_nothing_behind",),
    ),
    Mutation(
        "rows of the dead are shown",
        "store/sql/locks.sql",
        "WHERE {lives}\nORDER BY",
        "ORDER BY",
        (f"{OF_LOCKS}a_killed_process_hands_over_and_is_forgotten",),
    ),
    Mutation(
        "two replacements at once leave references of both",
        ENQUEUE,
        "(o.refs IS NOT DISTINCT FROM (SELECT w.refs FROM was w) AND",
        "(true OR o.refs IS NOT DISTINCT FROM (SELECT w.refs FROM was w) AND",
        (f"{OF_KEYS}two_replacements_at_once_leave_the_references_of_the_last",),
    ),
    Mutation(
        "an idempotency key stands for a job that was never made",
        "flow/enqueue/insert.py",
        """            yield from verbs.point_key(values, receipt.id)\n""",
        "",
        (f"{OF_KEYS}the_idempotency_key_decides_first_and_then_the_unique_key[replace-live]",),
    ),
)
