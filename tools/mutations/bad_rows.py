"""Mutations of the rules that keep one bad row from harming its neighbours."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation, migration

_BAD_ROW: Final = (
    "tests/races/test_one_bad_row.py::test_a_row_that_cannot_be_written_keeps_no_other_and_is_written_when_it_can_be"
)
_REFERRED: Final = (
    "tests/races/test_referring_rows.py::test_a_deletion_leaves_it_and_names_it_while_other_jobs_are_deleted"
)
_HELD: Final = "held by another transaction"
_REFUSED: Final = "refused by a trigger"
_RACES: Final = "tests/races/test_one_bad_row.py::test_"
_FUNCTIONS: Final = migration("refused_row_warnings")
_FOLDS: Final = migration("fold_in_parts")
_FOLLOW: Final = migration("refused_rows")
_OTHER: Final = "tests/races/test_other_tables.py::test_"
_WORKER: Final = "tests/flow/worker/test_held_rows.py::test_"


def _bad_row(fault: str, step: str) -> tuple[str]:
    return (f"{_BAD_ROW}[{fault}-{step}]",)


def _other_row(name: str) -> tuple[str]:
    return (f"{_OTHER}a_refused_row_of_another_table_keeps_no_other[{name}]",)


MUTATIONS: Final = (
    Mutation(
        "metrics know of no job that is set aside",
        "contrib/prometheus.py",
        "{(): sum(worker.set_aside_count for worker in overview.workers)},",
        "{(): 0},",
        (f"{_WORKER}a_worker_goes_on_beside_a_row_that_is_held_and_says_so",),
    ),
    Mutation(
        "a cancel waits for a row that refers to its job",
        "store/sql/control.sql",
        "AND j.state IN ('pending', 'blocked', 'queued') ORDER BY j.id FOR NO KEY UPDATE),\n{end_jobs},\n",
        "AND j.state IN ('pending', 'blocked', 'queued') ORDER BY j.id FOR UPDATE),\n{end_jobs},\n",
        ("tests/races/test_referring_rows.py::test_an_order_does_not_wait_for_a_row_that_refers_to_the_job[cancel]",),
    ),
    Mutation(
        "expiry passes over a job to which a row refers",
        "store/sql/upkeep.sql",
        "AND j.expires_at < now()\n  ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED),",
        "AND j.expires_at < now()\n  ORDER BY j.id FOR UPDATE SKIP LOCKED),",
        ("tests/races/test_referring_rows.py::test_expiry_does_not_pass_it_over[expires_at]",),
    ),
    Mutation(
        "an outcome waits for a row that refers to its job",
        "store/sql/held_rows.sql",
        "ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED)\nSELECT j.id",
        "ORDER BY j.id FOR UPDATE SKIP LOCKED)\nSELECT j.id",
        (_REFERRED,),
    ),
    Mutation(
        "a bulk deletion waits for a row that refers to a job",
        "desk/operation_driver.py",
        "held_jobs(within, batch.ids, to_delete=to_delete)",
        "held_jobs(within, batch.ids)",
        (_REFERRED,),
    ),
    Mutation(
        "old workers are deleted only all together",
        "store/sql/upkeep.sql",
        "'1 day' AND (:only::text[] IS NULL OR",
        "'1 day' AND (true OR",
        _other_row("old workers"),
    ),
    Mutation(
        "one refused pair keeps the sweep",
        "store/sql/upkeep.sql",
        "    AND (:only::text[] IS NULL OR 'pair '",
        "    AND (true OR 'pair '",
        _other_row("pairs"),
    ),
    Mutation(
        "one refused bulk order keeps all others",
        "store/sql/operations.sql",
        "                AND (:only::text[] IS NULL OR",
        "                AND (true OR",
        _other_row("abandoned operations"),
    ),
    Mutation(
        "workflows are judged only all together",
        "store/sql/workflows.sql",
        "AND (:only::text[] IS NULL OR 'workflow ' || o.id",
        "AND (true OR 'workflow ' || o.id",
        (f"{_OTHER}workflows_are_judged_beside_one_that_is_refused",),
    ),
    Mutation(
        "a workflow that cannot be judged is deleted at once",
        "upkeep/prune.py",
        "batch=BATCH, careful=careful)",
        "batch=BATCH, careful=False)",
        (f"{_OTHER}a_workflow_that_cannot_be_judged_is_not_deleted_before_its_time",),
    ),
    Mutation(
        "a refused count keeps failure groups and old counts",
        "upkeep/counts.py",
        "            failures.append(error)\n",
        "            raise\n",
        (f"{_OTHER}counts_that_cannot_be_told_apart_keep_neither_failure_groups_nor_old_counts",),
    ),
    Mutation(
        "counts are moved only all together",
        _FOLDS,
        "WHERE p_only IS NULL OR {schema}.count_increment_name(x) = ANY (p_only) LIMIT p_batch",
        "LIMIT p_batch",
        (f"{_OTHER}a_refused_row_of_another_table_keeps_no_other",),
    ),
    Mutation(
        "failures are moved into their groups only all together",
        _FOLDS,
        "WHERE p_only IS NULL OR {schema}.failure_increment_name(x) = ANY (p_only) LIMIT p_batch",
        "LIMIT p_batch",
        (f"{_OTHER}a_refused_row_of_another_table_keeps_no_other",),
    ),
    Mutation(
        "old counts are deleted only all together",
        "store/sql/upkeep.sql",
        "AND (:only::text[] IS NULL OR 'minute ' || {count_name} = ANY (:only::text[])) RETURNING 1),",
        "RETURNING 1),",
        (f"{_OTHER}a_refused_row_of_another_table_keeps_no_other",),
    ),
    Mutation(
        "nobody reads failures while one of their rows is refused",
        "desk/failures.py",
        "        with contextlib.suppress(WriteRefused, DatabaseBusy):\n",
        "        with contextlib.suppress(DatabaseBusy):\n",
        (f"{_OTHER}failures_are_read_while_one_of_their_rows_is_refused",),
    ),
    Mutation(
        "workflows are repaired only all together",
        _FUNCTIONS,
        "{schema}.workflow_follow_apart(v_ids, p_channel);",
        "{schema}.workflow_follow(v_ids, p_channel);",
        (f"{_OTHER}workflows_are_repaired_beside_one_that_is_refused",),
    ),
    Mutation(
        "a refused job keeps the turns of the others at their rate",
        _FUNCTIONS,
        "    PERFORM {schema}.warn_refused(p_ids[1], NULL, 'turn', SQLERRM);\n",
        "    RAISE;\n",
        (f"{_OTHER}a_turn_at_a_rate_is_given_to_every_job_but_the_refused_one",),
    ),
    Mutation(
        "a lane whose rate cannot be read stops the worker",
        "store/lanes.py",
        "    except (InvalidOption, KeyError, TypeError, ValueError) as error:\n",
        "    except ZeroDivisionError as error:\n",
        (
            "tests/flow/worker/test_held_rows.py::test_a_lane_whose_rate_cannot_be_read_claims_nothing_and_the_others_go_on",
        ),
    ),
    Mutation(
        "a supervisor vouches for no worker beside a refused one",
        "store/jobs/workers.py",
        "        refused=lambda _worker, error: refused.append(error),\n    )\n",
        "        refused=lambda _worker, error: refused.append(error),\n        may_go_on=list,\n    )\n",
        (f"{_OTHER}a_supervisor_keeps_its_workers_alive_beside_one_whose_row_is_refused",),
    ),
    Mutation(
        "a worker does not hear of rows that functions pass over",
        "store/database.py",
        "        connection.add_log_listener(self.warnings)\n",
        "",
        (f"{_WORKER}a_step_that_a_function_of_the_schema_passes_over_is_logged_explained_and_found_by_the_doctor",),
    ),
    Mutation(
        "a row that is not refused any more stays in the report",
        "set_aside.py",
        "            if one.failed_at < before and",
        "            if False and",
        ("tests/test_set_aside.py::test_a_row_that_has_not_failed_for_long_is_forgotten_and_that_is_logged",),
    ),
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
        "flow/claim/refused_rows.py",
        "if now < refusal.until]",
        "if now < 0]",
        ("tests/flow/claim/test_refused_rows.py::test_a_refused_job_is_tried_again_after_pauses_that_grow",),
    ),
    Mutation(
        "a duty that one row makes fail is put off",
        "upkeep/refused_rows.py",
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
        "WHEN OTHERS THEN PERFORM {schema}.warn_refused(v_id, NULL, 'promotion', SQLERRM);",
        "",
        (f"{_RACES}a_job_ends_though_the_next_one_at_its_gate_is_refused", *_bad_row(_REFUSED, "promoted")),
    ),
    Mutation(
        "a full gate turns nobody away beside a refused job",
        _FUNCTIONS,
        "    PERFORM {schema}.warn_refused(p_ids[1], NULL, 'parking', SQLERRM);\n",
        "    RAISE;\n",
        (f"{_RACES}a_full_gate_turns_a_job_away_though_another_of_its_key_is_refused",),
    ),
    Mutation(
        "a repair of gates ends with the first refused gate",
        _FUNCTIONS,
        "    WHEN OTHERS THEN PERFORM {schema}.warn_refused(NULL, 'gate ' || k, 'repair', SQLERRM);\n",
        "",
        _other_row("counts of gates"),
    ),
    Mutation(
        "a step does not end while the one behind it is refused",
        _FOLLOW,
        "coalesce({schema}.workflow_release_apart(v_go), '[]')",
        "coalesce({schema}.workflow_release(v_go), '[]')",
        (f"{_RACES}a_step_ends_though_the_one_behind_it_is_refused", *_bad_row(_REFUSED, "released behind")),
    ),
    Mutation(
        "waits for signals end only all together",
        _FUNCTIONS,
        "  RETURN nullif(coalesce({schema}.signals_time_out_apart(p_ids[: v_half]), '[]')",
        "  RAISE;\n  RETURN nullif(coalesce({schema}.signals_time_out_apart(p_ids[: v_half]), '[]')",
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
        "store/sql/wake.sql",
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
