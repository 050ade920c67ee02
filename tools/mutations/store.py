"""Mutations of the store beside the engine: searches, progress, requests, migrations."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation, migration

PROGRESS: Final = "store/sql/progress.sql"
OF_ITEMS: Final = "tests/flow/progress/test_items.py::test_"
LIMITS: Final = "store/migrations/0008_limits.up.sql"
OF_RATES: Final = "tests/store/test_rates.py::test_"
OF_ACCESS: Final = "tests/desk/test_access.py::test_"
LOCK_ORDER: Final = migration("lock_order")
CONTROL: Final = "store/sql/control.sql"
DEADLOCKS: Final = "tests/races/test_lock_order.py::test_statements_that_meet_at_a_row_never_deadlock"
SETTINGS: Final = "store/driver/session_settings.py"
PINNED: Final = "store/driver/pinned_connection.py"
OF_PINNED: Final = "tests/store/driver/test_pinned_connection.py::test_"
OF_SETTINGS: Final = "tests/store/driver/test_session_settings.py::test_"
OF_NOTIFY: Final = "tests/store/test_notify.py::test_"
OF_ORDERS: Final = "tests/desk/test_jobs.py::test_"

MUTATIONS: Final = (
    Mutation(
        "a user that was added later runs the server of another",
        "store/embedded/home.py",
        "if (owner := home.data.stat().st_uid) != 0:",
        "if (owner := home.data.stat().st_uid) < 0:",
        ("tests/store/test_embedded.py::test_the_owner_of_the_files_runs_the_server_whoever_was_added_since",),
    ),
    Mutation(
        "root is not told that its server shares a user",
        "store/embedded/__init__.py",
        "if not self.started or not self._home.is_shared:",
        "if True:",
        ("tests/store/test_embedded.py::test_root_is_told_once_that_a_server_shares_its_user_with_other_programs",),
    ),
    Mutation(
        "a replaced job keeps its approval",
        "store/sql/enqueue.sql",
        "(o.approval <> 0 OR excluded.approval <> 0)",
        "(excluded.approval <> 0)",
        ("tests/flow/enqueue/test_enqueue_unique.py::test_new_arguments_void_an_approval",),
    ),
    Mutation(
        "an approval rule approves what contains its arguments",
        migration("anonymous_rules"),
        "OR (r.args_match = 'contains' AND j.args @> r.args)",
        "OR j.args @> r.args",
        ("tests/desk/test_approvals.py::test_a_rule_approves_the_very_values_it_names",),
    ),
    Mutation(
        "a bulk takes its keys in the order of its input",
        "flow/enqueue/insert.py",
        'left = sorted(range(len(self.texts)), key=lambda n: self[n].unique_key or self[n].idempotency_key or "")',
        "left = list(range(len(self.texts)))",
        (f"{DEADLOCKS}[new unique key]",),
    ),
    Mutation(
        "the database orders the keys of a bulk by its own collation",
        "store/sql/enqueue.sql",
        "  ORDER BY d.n\n  ON CONFLICT DO NOTHING RETURNING id, state, run_after, unique_key),",
        "  ORDER BY d.n DESC\n  ON CONFLICT DO NOTHING RETURNING id, state, run_after, unique_key),",
        (f"{DEADLOCKS}[new unique key]",),
    ),
    Mutation(
        "a job that begins a workflow holds its row weakly first",
        LOCK_ORDER,
        "PERFORM 1 FROM {schema}.jobs j WHERE j.id = p_job AND j.workflow_id IS NULL FOR NO KEY UPDATE;",
        "",
        (f"{DEADLOCKS}[plain job, share]",),
    ),
    Mutation(
        "jobs are asked to stop in the order of the plan",
        CONTROL,
        "AND j.state = 'running' AND NOT j.cancel_requested ORDER BY j.id FOR NO KEY UPDATE),",
        "AND j.state = 'running' AND NOT j.cancel_requested),",
        (f"{DEADLOCKS}[plain job, update]",),
    ),
    Mutation(
        "expired keys are deleted in the order of the plan",
        "store/sql/upkeep.sql",
        "       LIMIT :batch::integer FOR UPDATE SKIP LOCKED) AS old\nWHERE k.kind = old.kind",
        "       LIMIT :batch::integer) AS old\nWHERE k.kind = old.kind",
        (f"{DEADLOCKS}[expired key]",),
    ),
    Mutation(
        "a message names as many jobs as there are",
        LOCK_ORDER,
        "BY 300 LOOP\n    PERFORM pg_notify(p_channel, json_build_object(p_word, to_json(p_ids[i : i + 299]))::text);",
        "BY 900 LOOP\n    PERFORM pg_notify(p_channel, json_build_object(p_word, to_json(p_ids[i : i + 899]))::text);",
        (f"{OF_NOTIFY}messages_about_many_jobs_with_long_ids_are_split",),
    ),
    Mutation(
        "a session takes the isolation that the database sets",
        SETTINGS,
        '    "default_transaction_isolation": "read committed",\n',
        "",
        (f"{OF_SETTINGS}a_session_has_the_settings_that_its_statements_are_written_for",),
    ),
    Mutation(
        "a limit on whole transactions counts for Rowlock's own",
        SETTINGS,
        'await connection.execute("SET transaction_timeout = 0")',
        "return",
        (f"{OF_SETTINGS}a_session_has_the_settings_that_its_statements_are_written_for",),
    ),
    Mutation(
        "a statement through a pooler takes the isolation that the database sets",
        PINNED,
        '            isolation = "read_committed"\n',
        "            isolation = None\n",
        (f"{OF_PINNED}every_statement_has_its_isolation_and_its_limits",),
    ),
    Mutation(
        "a statement through a pooler waits for a held row as long as the role does",
        PINNED,
        '            query = f"{query} {self._settings}"\n',
        "            pass\n",
        (f"{OF_PINNED}a_worker_does_not_wait_for_a_held_row_for_long",),
    ),
    Mutation(
        "a window reads the counts of the whole day",
        migration("failure_groups"),
        "  WHERE c.since >= b.since AND c.since < b.tens AND",
        "  WHERE c.since >= b.since AND (c.since < b.tens OR c.n < 0) AND",
        ("tests/upkeep/test_counts.py::test_no_window_is_read_from_the_minutes_of_a_whole_day[window2-stats_ended]",),
    ),
    Mutation(
        "an order waits for a held row as long as any statement",
        "store/executor.py",
        "                await self.limit_lock_wait(BRIEF)\n",
        "",
        (f"{OF_ORDERS}an_order_for_a_guarded_job_says_soon_who_holds_it",),
    ),
    Mutation(
        "an order for many jobs fails with the one that is held",
        "desk/job_orders.py",
        "if not blocked or len(blocked) == len(asked):",
        "if True:",
        (f"{OF_ORDERS}an_order_for_many_jobs_leaves_the_one_that_is_held",),
    ),
    Mutation(
        "an error of a lock does not say who holds it",
        "store/driver/lock_wait.py",
        "        error.add_note(_NOTE + blockers)",
        "        return",
        (f"{OF_ORDERS}an_order_for_a_guarded_job_says_soon_who_holds_it",),
    ),
    Mutation(
        "a restored view is compared as PostgreSQL prints it",
        "store/schema/migrate.py",
        "        for _ in range(_TIMES_PARSED):",
        "        for _ in range(0):",
        ("tests/store/schema/test_migrate.py::test_a_restored_dump_has_no_differences",),
    ),
    Mutation(
        "an admitted job uses nothing of its rate",
        migration("refused_row_warnings"),
        "      v_used[i] := v_used[i] + w;",
        "      v_used[i] := v_used[i];",
        (f"{OF_RATES}a_window_never_has_more_than_its_amount_and_frees_what_has_left_it",),
    ),
    Mutation(
        "a newcomer overtakes those that have a turn",
        migration("refused_row_warnings"),
        "AND (v_early OR v_horizon[i] <= v_now OR v_full[i] < v_now - interval '1 s');",
        ";",
        (f"{OF_RATES}a_turn_is_kept_and_newcomers_queue_up_behind",),
    ),
    Mutation(
        "a job that its rate refuses keeps its place at the gate",
        migration("refused_row_warnings"),
        "SELECT {schema}.gate_leave(array_agg(b.gate_key)) INTO v_left FROM back b WHERE b.gate_key IS NOT NULL;",
        "SELECT 0 INTO v_left;",
        (f"{OF_RATES}a_job_at_a_full_gate_uses_no_token_and_one_over_its_rate_gives_its_place_back",),
    ),
    Mutation(
        "the oldest step of a window is not counted",
        LIMITS,
        "r.uses)[1:21];",
        "r.uses)[1:20] || 0;",
        (f"{OF_RATES}a_start_late_in_its_step_counts_until_the_whole_step_has_left_the_window",),
    ),
    Mutation(
        "an upgrade takes an interrupted index for a good one",
        "store/schema/migrate.py",
        "while (valid := await self._valid(index)) is not True:",
        "while (valid := await self._valid(index)) is None:",
        ("tests/store/schema/test_migrate.py::test_an_interrupted_index_holds_nobody_up_and_is_built_again",),
    ),
    Mutation(
        "of two statements of one name the last one counts",
        "store/queries.py",
        "            if name in where:",
        "            if name in where and not file:",
        ("tests/store/test_queries.py::test_a_name_given_twice_is_refused",),
    ),
    Mutation(
        "the feed tells jobs that are out of sight",
        "store/sql/stream.sql",
        "THEN s.sees_all OR o.own",
        "THEN true OR o.own",
        ("tests/desk/follow/test_feed.py::test_only_jobs_in_sight_are_told",),
    ),
    Mutation(
        "an item counts again when it is written again",
        PROGRESS,
        "was = CASE WHEN i.fence = excluded.fence THEN i.state END, state",
        "was = NULL, state",
        (f"{OF_ITEMS}counts_are_exact_after_a_thousand_moves_from_everywhere",),
    ),
    Mutation(
        "an item is reported for an attempt that is over",
        PROGRESS,
        "JOIN {schema}.jobs j ON j.id = t.id AND j.fence = t.fence AND j.finished_at IS NULL\n  JOIN {schema}.jobs b",
        "JOIN {schema}.jobs j ON j.id = t.id\n  JOIN {schema}.jobs b",
        (f"{OF_ITEMS}an_item_handed_over_is_left_alone_once_its_attempt_is_over",),
    ),
    Mutation(
        "a checkpoint in a transaction needs no claim",
        PROGRESS,
        "\n    AND j.id = :id::bigint AND j.fence = :fence::integer AND j.finished_at IS NULL FOR SHARE),",
        " OR j.id = :id::bigint OR j.fence = :fence::integer FOR SHARE),",
        (
            "tests/flow/progress/test_context.py::test_a_checkpoint_in_a_transaction_needs_the_claim_and_the_transaction",
        ),
    ),
    Mutation(
        "a principal sees every job",
        "store/sql/history.sql",
        "(CASE WHEN :granted::jsonb IS NULL THEN :sees_all::boolean OR {own_job}",
        "(CASE WHEN :granted::jsonb IS NULL THEN true OR {own_job}",
        (f"{OF_ACCESS}another_tenants_job_is_not_there",),
    ),
    Mutation(
        "a namesake of another tenant sees the jobs of none",
        "store/sql/history.sql",
        "OR (:tenant::text IS NULL AND j.tenant IS NULL AND j.submitted_by",
        "OR (j.submitted_by",
        (f"{OF_ACCESS}another_tenants_job_is_not_there",),
    ),
    Mutation(
        "a repeated request makes another job",
        "store/sql/requests.sql",
        "AND k.expires_at > now()",
        "AND false",
        ("tests/api/routes/test_jobs.py::test_the_same_idempotency_key_makes_one_job",),
    ),
    Mutation(
        "old code works on a schema that says it cannot",
        "store/schema/migrate.py",
        "    if since > newest():\n",
        "    if since > newest() + 99:\n",
        ("tests/store/schema/test_migrate.py::test_steps_say_which_code_runs_with_them",),
    ),
    Mutation(
        "code of the release before hears of steps that it runs with, and refuses to start",
        "store/schema/migration_files.py",
        "or self.compatible_since > _RELEASED",
        "or self.compatible_since > 0",
        ("tests/store/schema/test_migrate.py::test_code_of_the_release_before_may_start_again",),
    ),
    Mutation(
        "a job with a rate is run by workers that ask no rates",
        "flow/enqueue/insert.py",
        "    return text if job.rate_keys is None else with_skills(text, RATE)",
        "    return text",
        (
            "tests/flow/kinds/test_stored_skills.py::test_jobs_with_a_rate_or_results_of_others_are_left_to_those_who_know",
        ),
    ),
    Mutation(
        "newcomers queue behind the turns that a raised rate gave before",
        "store/sql/rates.sql",
        "    updated_at = n.updated_at, front = '-infinity', horizon = '-infinity'\n",
        "    updated_at = n.updated_at\n",
        ("tests/desk/test_limits.py::test_a_newcomer_does_not_queue_behind_the_turns_of_a_rate_that_was_raised",),
    ),
    Mutation(
        "a pause until a moment that has passed ends the one that is there",
        "store/sql/rates.sql",
        " AND coalesce(:until::timestamptz > clock_timestamp(), true)",
        "",
        ("tests/desk/test_limits.py::test_a_pause_is_somebodys_and_ends_with_its_time_or_by_order",),
    ),
    Mutation(
        "the end of a transaction hides why it ended",
        "store/database.py",
        "return cause if isinstance(cause, OUTAGE) else error",
        "return error",
        ("tests/store/test_database.py::test_a_connection_that_dies_inside_a_transaction_is_an_outage",),
    ),
    Mutation(
        "the last progress is tried once",
        "flow/run/attempt.py",
        "for pause in _LAST_FLUSH_PAUSES:",
        "for pause in _LAST_FLUSH_PAUSES[:1]:",
        (f"{OF_ITEMS}the_last_items_are_written_though_the_database_was_away_for_a_moment",),
    ),
    Mutation(
        "a silent connection is waited for",
        "store/driver/statement_check.py",
        "            connection.terminate()\n    finally:",
        "            pass\n    finally:",
        ("tests/store/connections/test_worker_connection.py::test_a_connection_whose_server_is_not_at_it_is_hung_up",),
    ),
    Mutation(
        "a slow statement is taken for a silent connection",
        "store/sql/connections.sql",
        "a.pid = :pid::integer",
        "a.pid = -:pid::integer",
        ("tests/store/connections/test_worker_connection.py::test_a_statement_that_takes_its_time_is_left_alone",),
    ),
    Mutation(
        "an idle connection is trusted for ever",
        "store/driver/pool.py",
        "if self._is_fresh(connection, now - since) or await self._is_alive(connection):",
        "if True:",
        ("tests/store/driver/test_pool.py::test_a_connection_is_asked_only_after_it_was_idle_for_long",),
    ),
    Mutation(
        "a connection that ended while the loop was busy is lent",
        "store/driver/pool.py",
        "idle <= FRESH and (idle <= _JUST_NOW or not _has_unread(connection))",
        "idle <= FRESH",
        ("tests/store/driver/test_pool.py::test_a_connection_that_ended_while_the_loop_was_busy_is_replaced",),
    ),
    Mutation(
        "a call without an answer waits for its limit",
        "store/driver/pool.py",
        "            if now - since > SILENCE and",
        "            if False and",
        (
            "tests/store/driver/test_statement_check.py::test_a_call_without_an_answer_ends_soon_and_says_that_it_may_have_worked",
        ),
    ),
    Mutation(
        "one statement after another is taken for silence",
        "store/driver/statement_check.py",
        'row["busy"] or not (first or row["since"] == before)',
        'row["busy"]',
        ("tests/store/driver/test_statement_check.py::test_one_statement_after_another_is_no_silence",),
    ),
    Mutation(
        "every failure of an outage is told",
        "outage_log.py",
        "if not new and now - self._logged < _DISTANCES[min(self._lines - 1, len(_DISTANCES) - 1)]:",
        "if False:",
        ("tests/test_outage_log.py::test_an_outage_is_told_at_once_then_ever_more_rarely_and_so_is_its_end",),
    ),
    Mutation(
        "duties wait for a clock that was set back",
        "store/sql/upkeep.sql",
        "  AND NOT d.last_run_at BETWEEN clock_timestamp()"
        " - greatest(d.every, make_interval(secs => 20 * d.last_ms / 1000.0))\n"
        "                            AND clock_timestamp()\n",
        "  AND d.last_run_at < clock_timestamp() - d.every\n",
        ("tests/upkeep/test_duties.py::test_duties_go_on_at_once_after_the_servers_clock_was_set_back",),
    ),
)
