"""Mutations of what people may ask and order."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

OF_ACCESS: Final = "tests/desk/test_access.py::test_"
OF_TOKENS: Final = "tests/desk/test_tokens.py::test_"

MUTATIONS: Final = (
    Mutation(
        "a taken key shows a colleague's arguments",
        "desk/submit.py",
        "        return bare(job)\n",
        "        return job\n",
        ("tests/desk/test_submit.py::test_a_key_shows_nothing_of_a_job_that_the_caller_may_not_read",),
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
