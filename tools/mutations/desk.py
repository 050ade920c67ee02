"""Mutations of what people may ask and order."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

OF_ACCESS: Final = "tests/desk/test_access.py::test_"
OF_TOKENS: Final = "tests/desk/test_tokens.py::test_"

OF_COUNTS: Final = "tests/upkeep/test_counts.py::test_"
COUNTS: Final = "store/migrations/0011_counts.up.sql"

MUTATIONS: Final = (
    Mutation(
        "the doctor takes a sweep with nothing to do for upkeep that stands still",
        "store/sql/doctor.sql",
        "WHERE d.name = 'orphans' AND isfinite(greatest(d.last_run_at, w.started_at))",
        "WHERE d.name = 'sweep' AND isfinite(d.last_run_at)",
        ("tests/cli/commands/test_doctor.py::test_a_quiet_healthy_system_is_all_ok_after_a_day",),
    ),
    Mutation(
        "the doctor judges a kind by a handful of ends",
        "store/sql/doctor.sql",
        "f.ended >= :least::integer AND",
        "true OR f.ended >= :least::integer AND",
        ("tests/cli/commands/test_doctor.py::test_a_kind_that_mostly_fails_is_named_with_its_commonest_error",),
    ),
    Mutation(
        "ends are counted before their statement is done: a requeue is taken for unreadable",
        COUNTS,
        "a.job_id = o.id AND a.fence = o.fence",
        "a.job_id = o.id AND a.fence = n.fence",
        (f"{OF_COUNTS}every_way_to_end_is_counted_once",),
    ),
    Mutation(
        "a claim that its gate puts back is counted as an attempt",
        COUNTS,
        "WHEN o.state = 'running' AND n.claimed_at IS NULL THEN NULL",
        "WHEN o.state = 'running' AND false THEN NULL",
        (f"{OF_COUNTS}a_claim_that_its_gate_puts_back_is_no_attempt",),
    ),
    Mutation(
        "two folds at once wait for each other",
        COUNTS,
        "IF NOT pg_try_advisory_xact_lock(hashtextextended('{schema}.counts', 0)) THEN RETURN 0; END IF;",
        "",
        (f"{OF_COUNTS}two_folds_at_once_count_once",),
    ),
    Mutation(
        "a duration equal to a bound falls into the next bucket",
        COUNTS,
        "(17 - width_bucket(-p_seconds,",
        "(17 - width_bucket(-p_seconds - 1e-9,",
        (f"{OF_COUNTS}a_bucket_ends_with_its_bound",),
    ),
    Mutation(
        "series beyond the most are counted one by one",
        COUNTS,
        "IF v_series < p_series * 3 / 4 THEN",
        "IF true THEN",
        (f"{OF_COUNTS}tenants_and_kinds_beyond_the_most_series_are_counted_as_others",),
    ),
    Mutation(
        "readers miss what is not folded yet",
        COUNTS,
        "WHERE m.bucket IS NOT NULL;",
        "WHERE false;",
        (f"{OF_COUNTS}what_is_published_is_what_the_table_says",),
        count=0,
    ),
    Mutation(
        "totals go with the hours",
        "store/sql/upkeep.sql",
        "HAVING max(x.counted_at) < now() - interval '31 days')",
        "HAVING max(x.counted_at) < now() + interval '31 days')",
        (f"{OF_COUNTS}counters_do_not_go_down_when_minutes_and_hours_are_pruned",),
    ),
    Mutation(
        "a stream that was asked for just before the end holds it up",
        "desk/follow/streams_per_loop.py",
        "if self.closed:",
        "if False:",
        ("tests/api/routes/test_streams.py::test_streams_end_at_once_when_they_are_closed",),
    ),
    Mutation(
        "a bulk order needs no preview of its own",
        "desk/operations.py",
        "if filter_hash != seen.filter_hash:",
        "if False:",
        ("tests/desk/test_bulk.py::test_what_was_not_previewed_is_not_ordered",),
    ),
    Mutation(
        "an order does not look whether its job is in sight",
        "desk/visible_jobs.py",
        "if not self._guard.sees_all:",
        "if self._guard.read_only:",
        (f"{OF_ACCESS}another_tenants_job_is_not_there",),
    ),
    Mutation(
        "another tenant's workflow is seen",
        "store/sql/workflow_views.sql",
        "WHERE j.id = :id::bigint AND {visible}",
        "WHERE j.id = :id::bigint AND ({visible} OR true)",
        ("tests/desk/test_workflows.py::test_another_tenants_workflow_is_not_there",),
    ),
    Mutation(
        "a blocked step is taken for one at its gate",
        "desk/explain/reasons.py",
        'facts.job.gate_key is None or facts.row["gate_place"] == 0',
        "facts.job.gate_key is None",
        ("tests/desk/test_workflows.py::test_why_a_step_waits",),
    ),
    Mutation(
        "a workflow's id without its W is a job's",
        "model/ids.py",
        "symbols.append(_check(symbols) ^ mark)",
        "symbols.append(_check(symbols))",
        ("tests/desk/test_workflows.py::test_ids_of_workflows_are_no_ids_of_jobs",),
    ),
    Mutation(
        "the guard asks for no permission",
        "desk/guard.py",
        "if not self.principal.may(permission):",
        "if self.principal is None:",
        (f"{OF_ACCESS}every_method_for_every_role",),
    ),
    Mutation(
        "a read-only desk takes orders",
        "desk/guard.py",
        "if unsafe and self.read_only:",
        "if unsafe and self.principal is None:",
        (f"{OF_ACCESS}a_read_only_desk_changes_nothing",),
    ),
    Mutation(
        "a token holds whatever its secret",
        "desk/identity.py",
        "if not hmac.compare_digest(kept, parts.hash) or not found",
        "if not found",
        (f"{OF_TOKENS}a_token_that_does_not_hold_is_refused",),
    ),
    Mutation(
        "a token is worth more than its maker",
        "desk/tokens.py",
        "        holds(self._guard, own.union",
        "        (own.union",
        (f"{OF_TOKENS}nobody_gives_or_takes_what_they_do_not_hold",),
    ),
    Mutation(
        "nobody is told that a look was cut",
        "desk/follow/feed.py",
        'missed = found[0]["cut"] or len(changes) >= MOST',
        "missed = len(changes) >= MOST",
        ("tests/desk/follow/test_feed.py::test_what_a_cut_walk_may_have_left_out_is_a_resync",),
    ),
    Mutation(
        "a feed begins after the answer to somebody who came back",
        "desk/follow/feed.py",
        "if self._position is None:",
        "if False:",
        ("tests/desk/follow/test_feed.py::test_a_client_that_comes_back_to_another_process_misses_nothing",),
    ),
    Mutation(
        "the feed does not look at attempts",
        "store/sql/stream.sql",
        "UNION ALL SELECT w.id, w.xid, false FROM given_back w",
        "",
        ("tests/desk/follow/test_feed.py::test_an_attempt_that_came_and_went_unseen_is_told",),
    ),
    Mutation(
        "lines between the snapshot and the first look are lost",
        "desk/follow/stream.py",
        "line=self._line",
        "line=life.line",
        ("tests/desk/follow/test_stream_logs.py::test_a_line_between_the_snapshot_and_the_first_look_is_told",),
    ),
    Mutation(
        "whoever reads an operation stops it",
        "desk/operations.py",
        '        self._guard.demand(NEEDED[there[0]["action"]], unsafe=True)\n',
        "",
        ("tests/desk/test_bulk.py::test_who_may_not_give_an_order_may_not_stop_one_either",),
    ),
    Mutation(
        "changed arguments keep their approval",
        "store/sql/control.sql",
        "SELECT o.*, w.anew, w.anew AND o.approval <> 0 AS voids,",
        "SELECT o.*, w.anew, false AS voids,",
        ("tests/desk/test_edit.py::test_changed_arguments_void_an_approval",),
    ),
    Mutation(
        "who edited the arguments approves them",
        "store/sql/control.sql",
        "AND a.by_whom = :by_whom::text AND a.detail ? 'args') THEN 'edited'",
        "AND false) THEN 'edited'",
        ("tests/desk/test_edit.py::test_four_eyes_are_not_those_of_who_edited_the_arguments",),
    ),
    Mutation(
        "an edit overwrites what it did not read",
        "store/sql/control.sql",
        "WHERE j.id = :id::bigint AND j.seq = :seq::integer AND j.state IN",
        "WHERE j.id = :id::bigint AND j.state IN",
        ("tests/races/test_two_at_once.py::test_of_two_edits_at_once_the_second_is_told",),
    ),
    Mutation(
        "an order for many outlives the permission of whoever gave it",
        "desk/operation_driver.py",
        "            if needed not in held:\n",
        "            if not needed:\n",
        ("tests/desk/test_bulk.py::test_an_order_outlives_neither_its_role_nor_its_token",),
    ),
)
