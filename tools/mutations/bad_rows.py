"""Mutations of the rules that keep one bad row from harming its neighbours."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation, migration

_BAD_ROW: Final = (
    "tests/races/test_one_bad_row.py::test_a_row_that_cannot_be_written_keeps_no_other_and_is_written_when_it_can_be"
)
_HELD: Final = "held by another transaction"
_REFUSED: Final = "refused by a trigger"
_RACES: Final = "tests/races/test_one_bad_row.py::test_"
_FUNCTIONS: Final = migration("refused_rows")
_WORKER: Final = "tests/flow/worker/test_held_rows.py::test_"


def _bad_row(fault: str, step: str) -> tuple[str]:
    return (f"{_BAD_ROW}[{fault}-{step}]",)


MUTATIONS: Final = (
    Mutation(
        "a batch of outcomes waits for the row that is held",
        "flow/finish/finisher.py",
        "if not isinstance(error, UNSERVED) and not (isinstance(error, RACES) and failures < _RACES_LOST):",
        "if error is None:",
        _bad_row(_HELD, "completed"),
    ),
    Mutation(
        "a batch of outcomes that was refused is not taken apart",
        "flow/finish/set_aside_writes.py",
        "        if not batch.alone:\n            middle",
        "        if batch is None:\n            middle",
        _bad_row(_REFUSED, "completed with a result"),
    ),
    Mutation(
        "a lane whose claim fails stops the others",
        "flow/claim/claimer.py",
        "                    apart |= group\n",
        "                    raise\n",
        _bad_row(_REFUSED, "claim"),
    ),
    Mutation(
        "a refused job is claimed again at once",
        "flow/claim/refused_jobs.py",
        "if now < refusal.until]",
        "if now < 0]",
        ("tests/flow/claim/test_refused_jobs.py::test_a_refused_job_is_tried_again_after_pauses_that_grow",),
    ),
    Mutation(
        "a duty that one row makes fail is put off",
        "upkeep/apart.py",
        "                if not isinstance(error, RACES):\n                    break\n",
        "                if not isinstance(error, RACES):\n                    raise\n",
        _bad_row(_REFUSED, "rescue"),
    ),
    Mutation(
        "retention forgets a row that was held when it passed",
        "store/sql/upkeep.sql",
        "coalesce((SELECT min(s.finished_at) FROM seen s WHERE s.id NOT IN (SELECT old.id FROM old)),",
        "coalesce(NULL,",
        _bad_row(_HELD, "prune"),
    ),
    Mutation(
        "a refused job at a gate keeps the places of the others",
        _FUNCTIONS,
        "WHEN OTHERS THEN RAISE WARNING 'rowlock: job % gets no place at gate %: %', v_id, p_key, SQLERRM;",
        "",
        (f"{_RACES}a_job_ends_though_the_next_one_at_its_gate_is_refused", *_bad_row(_REFUSED, "promoted")),
    ),
    Mutation(
        "a full gate turns nobody away beside a refused job",
        _FUNCTIONS,
        "WHEN OTHERS THEN RAISE WARNING 'rowlock: a job of gate % cannot be parked: %', v_key, SQLERRM;",
        "",
        (f"{_RACES}a_full_gate_turns_a_job_away_though_another_of_its_key_is_refused",),
    ),
    Mutation(
        "a repair of gates ends with the first refused job",
        _FUNCTIONS,
        "WHEN OTHERS THEN RAISE WARNING 'rowlock: a job of gate % cannot give its place back: %', k, SQLERRM;",
        "",
        _bad_row(_REFUSED, "parked again"),
    ),
    Mutation(
        "a step does not end while the one behind it is refused",
        _FUNCTIONS,
        "coalesce({schema}.workflow_release_apart(v_go), '[]')",
        "coalesce({schema}.workflow_release(v_go), '[]')",
        (f"{_RACES}a_step_ends_though_the_one_behind_it_is_refused", *_bad_row(_REFUSED, "released behind")),
    ),
    Mutation(
        "waits for signals end only all together",
        _FUNCTIONS,
        "SELECT v_ids, {schema}.workflow_release_apart(ARRAY(",
        "SELECT v_ids, {schema}.workflow_release(ARRAY(",
        _bad_row(_REFUSED, "signals"),
    ),
    Mutation(
        "steps are cancelled only all together",
        _FUNCTIONS,
        "  RETURN {schema}.workflow_stop_apart(p_ids[: v_half])",
        "  RAISE;\n  RETURN {schema}.workflow_stop_apart(p_ids[: v_half])",
        _bad_row(_REFUSED, "cancelled behind"),
    ),
    Mutation(
        "a cancelled workflow keeps all its steps beside a refused one",
        "desk/workflow_halt.py",
        "channel=channel, only=steps",
        "channel=channel, only=steps[:0]",
        (f"{_RACES}a_cancel_of_a_workflow_ends_every_step_but_the_refused_one",),
    ),
    Mutation(
        "workflows are deleted only all together",
        "store/sql/workflows.sql",
        "            AND (:only::bigint[] IS NULL\n",
        "            AND (true OR :only::bigint[] IS NULL\n",
        _bad_row(_REFUSED, "prune workflows"),
    ),
    Mutation(
        "claims that nobody knows of are given back only all together",
        "flow/worker/heartbeat.py",
        "            await in_halves(unknown, give_back,",
        "            await in_halves([], give_back,",
        _bad_row(_REFUSED, "disowned"),
    ),
    Mutation(
        "jobs rise only all together",
        "store/sql/rates.sql",
        "clock_timestamp() - :every::interval AND {among}",
        "clock_timestamp() - :every::interval AND (true OR {among})",
        _bad_row(_REFUSED, "age"),
    ),
    Mutation(
        "a full queue of notifications fails what would notify",
        "store/sql/enqueue.sql",
        "(pg_notification_queue_usage() < 0.9)",
        "(true)",
        ("tests/races/test_notify_queue_full.py::test_no_statement_fails_because_it_cannot_notify[notify]",),
    ),
    Mutation(
        "a full queue of notifications fails an order about jobs",
        migration("lock_order"),
        "  IF pg_notification_queue_usage() >= 0.9 THEN RETURN; END IF;\n",
        "",
        ("tests/races/test_notify_queue_full.py::test_no_statement_fails_because_it_cannot_notify[cancel_running]",),
    ),
    Mutation(
        "the error of a user's trigger is taken for a missing schema",
        "store/database.py",
        'if where and f"{self.schema}." not in where:',
        "if where is None:",
        ("tests/store/test_database.py::test_the_error_of_a_trigger_is_told_as_that",),
    ),
    Mutation(
        "a background loop that fails is not started again",
        "keep_running.py",
        "            await asyncio.sleep(pause)\n",
        "            return\n",
        ("tests/test_keep_running.py::test_a_loop_that_fails_is_logged_and_started_again",),
    ),
    Mutation(
        "a worker without a heartbeat stays",
        "flow/worker/heartbeat.py",
        "        self._on_death(failure)\n",
        "        del failure\n",
        (f"{_WORKER}a_worker_whose_heartbeat_does_not_start_any_more_leaves_and_says_why",),
    ),
    Mutation(
        "explain does not know of jobs that are set aside",
        "desk/explain/set_aside.py",
        "if one.job_id == facts.job.id:",
        "if one.job_id is None:",
        (f"{_WORKER}a_worker_goes_on_beside_a_row_that_is_held_and_says_so",),
    ),
)
