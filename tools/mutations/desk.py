"""Mutations of what people may ask and order."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

OF_ACCESS: Final = "tests/desk/test_access.py::test_"
OF_ROUTES: Final = "tests/api/test_route_permissions.py::test_"
OF_TOKENS: Final = "tests/desk/test_tokens.py::test_"

OF_COUNTS: Final = "tests/upkeep/test_counts.py::test_"
COUNTS: Final = "store/migrations/0014_counts.up.sql"

MUTATIONS: Final = (
    Mutation(
        "a lane's version rises when nothing changes",
        "store/sql/lanes.sql",
        "IS DISTINCT FROM (m.kinds, m.slots",
        "IS DISTINCT FROM (m.kinds, m.slots + 1",
        ("tests/desk/test_no_change.py::test_the_second_of_two_equal_calls_leaves_no_trace",),
    ),
    Mutation(
        "an edit that changes nothing is written",
        "desk/edit.py",
        "if not due and same_args and",
        "if self is None and",
        ("tests/desk/test_no_change.py::test_the_second_of_two_equal_calls_leaves_no_trace",),
    ),
    Mutation(
        "true in place of 1 is no change of arguments",
        "desk/edit.py",
        "_canonical(json.loads(args)) == _canonical(before_args)",
        "json.loads(args) == before_args",
        ("tests/desk/test_no_change.py::test_true_in_place_of_one_is_a_change_of_arguments",),
    ),
    Mutation(
        "a worker that beats can be forgotten",
        "store/sql/lanes.sql",
        "AND w.state <> 'gone' AND w.seen_at < clock_timestamp() - interval '15 s'\nRETURNING",
        "AND w.state <> 'gone'\nRETURNING",
        ("tests/desk/test_workers.py::test_a_gone_host_is_forgotten_and_its_jobs_are_rescued_at_once",),
    ),
    Mutation(
        "rescue waits for the heartbeat timeout of a worker that was declared gone",
        "store/sql/upkeep.sql",
        "OR w.state = 'gone' AND w.seen_at < clock_timestamp() - interval '15 s')",
        "OR false)",
        ("tests/desk/test_workers.py::test_a_gone_host_is_forgotten_and_its_jobs_are_rescued_at_once",),
    ),
    Mutation(
        "the slots of a killed worker count as free until it is lost",
        "desk/explain/facts.py",
        "if worker.works and not self.missed_beats(worker)",
        "if worker.works",
        (
            "tests/desk/explain/test_explain.py::test_a_worker_that_was_killed_has_no_free_slot_after_three_missed_beats",
        ),
    ),
    Mutation(
        "an order to any job of the platform shows what is in the job",
        "desk/guard.py",
        "return job if reads else job.without_content()",
        "return job",
        (f"{OF_ROUTES}own_jobs_and_the_workers_of_the_platform_are_one_possible_role",),
    ),
    Mutation(
        "whoever watches workers reads the labels of every job in a slot",
        "desk/workers.py",
        'job if row["readable"] and reads else job.without_content()',
        "job",
        (f"{OF_ROUTES}own_jobs_and_the_workers_of_the_platform_are_one_possible_role",),
    ),
    Mutation(
        "operators of workers reach the jobs of their own tenant only",
        "desk/guard.py",
        "return self.platform_wide or self.principal.may(Permission.READ_ALL)",
        "return self.principal.may(Permission.READ_ALL)",
        (f"{OF_ROUTES}each_route_works_with_exactly_the_permissions_of_the_route_table",),
    ),
    Mutation(
        "a change of a lane takes the permission to view it too",
        "api/routes/lanes.py",
        "lane = await desk.lanes.get_for_change(name)\n    require_match",
        "lane = await desk.lanes.get(name)\n    require_match",
        (f"{OF_ROUTES}each_route_works_with_exactly_the_permissions_of_the_route_table",),
    ),
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
        "every update of a finished job is counted as an end",
        COUNTS,
        "WHEN o.finished_at IS NULL AND n.finished_at IS NOT NULL THEN 'unstarted'",
        "WHEN n.finished_at IS NOT NULL THEN 'unstarted'",
        (
            f"{OF_COUNTS}a_retry_by_a_person_counts_the_second_end_too",
            f"{OF_COUNTS}an_update_of_a_finished_job_is_no_end",
        ),
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
        "a caller over REST approves its own job",
        "desk/job_orders.py",
        '        return self._guard.principal.kind != "system" and',
        "        return False and",
        ("tests/desk/test_approvals.py::test_nobody_approves_their_own_job_over_rest_unless_the_kind_says_so",),
    ),
    Mutation(
        "a copy runs without the approval of its original",
        "desk/submit.py",
        'Approval.of(needed["approval"]) if needed["approval"] else False',
        "False",
        ("tests/desk/test_approvals.py::test_a_copy_needs_the_approval_that_was_demanded_of_the_original",),
    ),
    Mutation(
        "an approval rule looks into secret arguments",
        "desk/approvals.py",
        "        if redact.has_marks(args):\n",
        "        if not redact.has_marks({}) and False:\n",
        ("tests/desk/test_approvals.py::test_a_rule_cannot_guess_at_secrets",),
    ),
    Mutation(
        "a stream that was asked for just before the end holds it up",
        "desk/follow/streams_per_loop.py",
        "if self.closed:",
        "if False:",
        ("tests/desk/follow/test_stream.py::test_the_first_stream_of_a_process_that_already_stops_ends_at_once",),
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
        "forgeries with a known token id lock its holder out",
        "desk/identity.py",
        '        if not hmac.compare_digest(kept, parts.hash) or not found or not found[0]["lives"]:\n',
        "        if failed := await self._open().fetch(\n"
        '            "login_blocked", keys=[f"{address} {parts.id}"], limits=[MOST], within=FAILURES_WITHIN\n'
        "        ):\n"
        '            raise _too_many(failed[0]["seconds"])\n'
        '        if not hmac.compare_digest(kept, parts.hash) or not found or not found[0]["lives"]:\n',
        (f"{OF_TOKENS}guesses_are_counted_for_all_processes_and_lock_nobody_out",),
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
