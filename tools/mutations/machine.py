"""Mutations that the state machine must notice, whatever other tests say: in fixed scenes, some also at random."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mutations.mutation import Mutation, migration

FINISH: Final = "store/sql/finish.sql"
CONTROL: Final = "store/sql/control.sql"
UPKEEP: Final = "store/sql/upkeep.sql"
ENQUEUE: Final = "store/sql/enqueue.sql"
CLAIM: Final = "store/sql/claim.sql"
PROGRESS: Final = "store/sql/progress.sql"
GATES: Final = "store/migrations/0001_initial.up.sql"
FLOWS: Final = "store/migrations/0009_workflows.up.sql"
APPROVALS: Final = migration("anonymous_rules")
LOCK_ORDER: Final = migration("lock_order")
LIMITS: Final = "store/migrations/0008_limits.up.sql"
RATES: Final = "store/sql/rates.sql"
SCHEDULES: Final = "store/sql/schedules.sql"
LOCKS: Final = "store/sql/locks.sql"
RELEASES: Final = "store/migrations/0010_locks.up.sql"
PLANS: Final = "flow/enqueue/insert.py"


def _scene(name: str) -> tuple[str, ...]:
    return (f"tests/machine/test_scenes.py::test_{name}",)


_SCENES: Final = (
    Mutation(
        "machine: a stale claim completes the next attempt",
        FINISH,
        "j.claimed_by = :worker::bigint AND j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL\n\n",
        "j.id = d.id AND j.finished_at IS NULL\n\n",
        _scene("a_stale_claim_does_not_end_the_next_attempt"),
    ),
    Mutation(
        "machine: a rescue leaves the fence as it is",
        FINISH,
        "fence = j.fence + 1, seq = j.seq + 1, gate_place = 0,",
        "fence = j.fence + (l.owner IS NOT NULL)::integer, seq = j.seq + 1, gate_place = 0,",
        _scene("a_rescue_moves_the_fence_and_refunds_the_attempt"),
    ),
    Mutation(
        "machine: who gives a job back keeps its place",
        FINISH,
        "SELECT coalesce(array_agg(m.id), '{}') AS ids, {left_places} AS promoted, {notified} AS notified,"
        " {followed},\n"
        "       min(m.run_after) FILTER (WHERE m.state = 'queued') AS again_at FROM moved m\n",
        "SELECT coalesce(array_agg(m.id), '{}') AS ids, 0 AS promoted, {notified} AS notified, {followed},\n"
        "       min(m.run_after) FILTER (WHERE m.state = 'queued') AS again_at FROM moved m\n",
        _scene("a_job_that_is_given_back_leaves_its_place"),
    ),
    Mutation(
        "machine: a dead worker costs its jobs an attempt",
        UPKEEP,
        "* random() AS delay, 1 AS refund,",
        "* random() AS delay, 0 AS refund,",
        _scene("a_rescue_moves_the_fence_and_refunds_the_attempt"),
    ),
    Mutation(
        "machine: a job goes back beside its waiting twin",
        FINISH,
        "(l.state <> 'failed' AND (j.cancel_requested OR was.twin IS NOT NULL))",
        "(l.state <> 'failed' AND j.cancel_requested)",
        _scene("a_job_that_comes_back_to_its_waiting_twin_is_superseded"),
    ),
    Mutation(
        "machine: of two that come back at once both do",
        FINISH,
        "          AND t.id > me.id AND o.state",
        "          AND t.id > me.id AND false AND o.state",
        _scene("of_two_jobs_of_a_key_that_come_back_at_once_the_newer_one_waits"),
    ),
    Mutation(
        "machine: a job whose cancel was asked for is tried again",
        FINISH,
        "(l.state <> 'failed' AND (j.cancel_requested OR was.twin IS NOT NULL))",
        "(l.state <> 'failed' AND was.twin IS NOT NULL)",
        _scene("a_cancel_that_was_asked_for_ends_the_job_instead_of_another_attempt_and_no_hook_tells"),
    ),
    Mutation(
        "machine: the sweep publishes a moment behind the head",
        UPKEEP,
        "SELECT h.kind, h.priority, h.share, h.run_after FROM h WHERE",
        "SELECT h.kind, h.priority, h.share, h.run_after + interval '1 s' FROM h WHERE",
        _scene("a_sweep_publishes_the_head_of_its_pair"),
    ),
    Mutation(
        "machine: an approval outlives the arguments it was for",
        CONTROL,
        "w.anew AND o.approval <> 0 AND NOT o.depends AS asks",
        "w.anew AND o.approval & 3 = 1 AND NOT o.depends AS asks",
        _scene("other_arguments_void_an_approval"),
    ),
    Mutation(
        "machine: an edit that changes nothing is written",
        CONTROL,
        "  WHERE j.id = w.id AND (w.anew OR w.due <> w.run_after OR",
        "  WHERE j.id = w.id AND (true OR w.due <> w.run_after OR",
        _scene("an_edit_that_changes_nothing_leaves_the_job_as_it_is"),
    ),
    Mutation(
        "machine: a gate lets one more in than it has places",
        migration("refused_row_warnings"),
        "v_free := greatest(0, g.max_running - g.held);",
        "v_free := greatest(0, g.max_running + 1 - g.held);",
        _scene("a_gate_lets_in_as_many_as_it_has_places_and_the_others_in_turn"),
    ),
    Mutation(
        "machine: a freed place goes to the last in the queue",
        migration("refused_row_warnings"),
        "     ORDER BY q.priority DESC, q.run_after, q.id LIMIT p_free FOR NO KEY UPDATE SKIP LOCKED)",
        "     ORDER BY q.priority, q.run_after DESC, q.id LIMIT p_free FOR NO KEY UPDATE SKIP LOCKED)",
        _scene("a_gate_lets_in_as_many_as_it_has_places_and_the_others_in_turn"),
    ),
    Mutation(
        "machine: a pair is emptied from its end",
        CLAIM,
        "  ORDER BY j.run_after, j.id\n  LIMIT l.free",
        "  ORDER BY j.run_after DESC, j.id\n  LIMIT l.free",
        _scene("a_pair_is_claimed_from_its_head"),
    ),
    Mutation(
        "machine: an older job waits behind a newer one",
        CLAIM,
        "ORDER BY h.run_after, h.id) AS m\n      {locked_head}\n      UNION ALL\n      SELECT r.id\n"
        "      FROM (SELECT h.kind, level.priority, h.share, coalesce(max(h.run_after), h.lo) AS lo,\n"
        "                   coalesce((array_agg(h.id ORDER BY h.run_after DESC, h.id DESC))[1], 0) AS last_id\n",
        "ORDER BY h.run_after DESC, h.id) AS m\n      {locked_head}\n      UNION ALL\n      SELECT r.id\n"
        "      FROM (SELECT h.kind, level.priority, h.share, coalesce(max(h.run_after), h.lo) AS lo,\n"
        "                   coalesce((array_agg(h.id ORDER BY h.run_after DESC, h.id DESC))[1], 0) AS last_id\n",
        _scene("of_two_kinds_the_older_job_is_claimed_first"),
    ),
    Mutation(
        "machine: items of the attempt before are counted with this one's",
        PROGRESS,
        "items_completed = CASE WHEN p.fence = excluded.fence THEN p.items_completed ELSE 0 END",
        "items_completed = p.items_completed",
        _scene("an_attempt_counts_its_own_items_only"),
    ),
    Mutation(
        "machine: a step that ends twice is counted twice",
        migration("losses"),
        "UPDATE {schema}.workflow_steps s SET ended = false WHERE s.job_id = ANY (v_now) AND s.ended;",
        "",
        _scene("a_step_behind_one_that_failed_ends_and_both_may_be_retried"),
    ),
    Mutation(
        "machine: a step behind one that failed waits for ever",
        migration("refused_rows"),
        "    IF v_stop IS NOT NULL THEN\n",
        "    IF false THEN\n",
        _scene("a_step_behind_one_that_failed_ends_and_both_may_be_retried"),
    ),
    Mutation(
        "machine: a cancel takes the job from under its claimer",
        CONTROL,
        "AND j.state IN ('pending', 'blocked', 'queued') ORDER BY j.id FOR NO KEY UPDATE),\n{end_jobs},\n",
        "AND j.state IN ('pending', 'blocked', 'queued') ORDER BY j.id),\n{end_jobs},\n",
        _scene("a_cancel_that_waits_for_a_claim_does_not_end_the_job_under_it"),
    ),
    Mutation(
        "machine: an idempotency key stands for a job that was never made",
        ENQUEUE,
        "coalesce((SELECT twin.id FROM twin), {key_job})",
        "{key_job}",
        _scene("an_idempotency_key_stands_for_the_job_that_the_unique_key_led_to"),
    ),
    Mutation(
        "machine: the idempotency key does not follow the unique key",
        PLANS,
        "            yield from verbs.point_key(values, receipt.id)\n",
        "",
        _scene("an_idempotency_key_follows_a_job_that_was_replaced"),
    ),
    Mutation(
        "machine: of a key that a bulk says twice the last one counts",
        ENQUEUE,
        "ORDER BY d.key, d.n) AS f ORDER BY f.n",
        "ORDER BY d.key, d.n DESC) AS f ORDER BY f.n",
        _scene("of_a_key_that_a_bulk_says_twice_the_first_counts"),
    ),
    Mutation(
        "machine: a bulk that is rejected leaves jobs behind",
        ENQUEUE,
        "FROM {schema}.jobs j WHERE j.id = ANY (:ids::bigint[]) RETURNING j.id, j.refs, j.tags)\nDELETE",
        "FROM {schema}.jobs j WHERE :ids::bigint[] IS NULL RETURNING j.id, j.refs, j.tags)\nDELETE",
        _scene("a_bulk_that_is_rejected_leaves_nothing"),
    ),
    Mutation(
        "machine: a replaced job is still found by its old references",
        ENQUEUE,
        "USING (SELECT * FROM before EXCEPT SELECT * FROM after) AS g",
        "USING (SELECT * FROM before WHERE false) AS g",
        _scene("a_replaced_job_is_found_by_its_new_references_only"),
    ),
    Mutation(
        "machine: a job that ended instead of another attempt is told as a failed one",
        FINISH,
        "  WHERE d.hook IS NOT NULL AND m.state = 'queued'),",
        "  WHERE d.hook IS NOT NULL),",
        _scene("a_cancel_that_was_asked_for_ends_the_job_instead_of_another_attempt_and_no_hook_tells"),
    ),
    Mutation(
        "machine: nobody is told of a job that expired",
        UPKEEP,
        "FROM concluded o JOIN {schema}.kinds k ON k.name = o.kind WHERE",
        "FROM concluded o JOIN {schema}.kinds k ON k.name = o.kind AND o.state = 'failed' WHERE",
        _scene("a_job_that_expired_is_told_by_its_hook"),
    ),
    Mutation(
        "machine: one tenant's backlog is served before the others'",
        CLAIM,
        "ORDER BY h.debt + h.rank, h.run_after, h.id) AS m",
        "ORDER BY h.run_after, h.id) AS m",
        _scene("a_backlog_of_one_tenant_does_not_keep_another_waiting"),
    ),
    Mutation(
        "machine: a fair lane forgets whose turn it was",
        CLAIM,
        "ORDER BY h.debt + h.rank, h.run_after, h.id) AS m",
        "ORDER BY h.rank, h.run_after, h.id) AS m",
        _scene("a_fair_lane_remembers_whose_turn_it_was"),
    ),
    Mutation(
        "machine: a pair with more to give is left alone",
        CLAIM,
        "            HAVING count(h.id) = h.take\n            ORDER BY h.debt + h.take, 4",
        "            HAVING count(h.id) > h.take\n            ORDER BY h.debt + h.take, 4",
        _scene("a_tenant_that_is_alone_gets_every_slot"),
    ),
    Mutation(
        "machine: a released step passes a more urgent job",
        CLAIM,
        "      WHERE p.priority > j.priority)",
        "      WHERE false)",
        _scene("a_released_step_lets_a_more_urgent_job_pass"),
    ),
    Mutation(
        "machine: a job that rises lands behind the cursors",
        RATES,
        "seq = j.seq + 1, run_after = clock_timestamp()\n  FROM held h",
        "seq = j.seq + 1, run_after = j.run_after\n  FROM held h",
        _scene("a_job_that_rises_gets_a_new_position"),
    ),
    Mutation(
        "machine: a bucket never overflows",
        LIMITS,
        "tokens := least(r.burst, r.tokens + extract(epoch FROM v_now - r.updated_at) / pace);",
        "tokens := r.tokens + extract(epoch FROM v_now - r.updated_at) / pace;",
        _scene("a_bucket_gives_its_last_token_and_never_holds_more_than_it_can"),
    ),
    Mutation(
        "machine: a bucket keeps its last token",
        migration("refused_row_warnings"),
        "AND v_room[i] >= w - 1e-6\n",
        "AND v_room[i] >= w + 1\n",
        _scene("a_bucket_gives_its_last_token_and_never_holds_more_than_it_can"),
    ),
    Mutation(
        "machine: a rate that is paused lets jobs start",
        migration("refused_row_warnings"),
        "CONTINUE WHEN v_paused[i] <= v_now AND v_room",
        "CONTINUE WHEN v_room",
        _scene("a_paused_rate_lets_nothing_start"),
    ),
    Mutation(
        "machine: a stale claim pauses a rate",
        RATES,
        "j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL\n  CROSS JOIN LATERAL unnest",
        "j.id = d.id\n  CROSS JOIN LATERAL unnest",
        _scene("a_stale_claim_pauses_no_rate"),
    ),
    Mutation(
        "machine: a workflow whose key is taken says it was made",
        FLOWS,
        "RETURN QUERY SELECT v_id, 'kept', s.name",
        "RETURN QUERY SELECT v_id, 'created', s.name",
        _scene("a_workflow_whose_key_is_taken_is_the_one_that_has_it"),
    ),
    Mutation(
        "machine: a rule approves its author's own job",
        APPROVALS,
        "AND (coalesce(r.created_by = j.submitted_by, false) OR EXISTS (",
        "AND (EXISTS (",
        _scene("a_rule_does_not_approve_its_authors_own_job"),
    ),
    Mutation(
        "machine: a rule approves arguments that its author has edited",
        APPROVALS,
        "AND (coalesce(r.created_by = j.submitted_by, false) OR EXISTS (",
        "AND (coalesce(r.created_by = j.submitted_by, false) OR false AND EXISTS (",
        _scene("a_rule_does_not_approve_a_job_that_its_author_has_edited"),
    ),
    Mutation(
        "machine: a rule without an author approves under four eyes",
        APPROVALS,
        "          AND NOT (j.approval & 4 <> 0 AND coalesce(r.created_by = j.submitted_by, true))\n",
        "",
        _scene("a_rule_without_an_author_does_not_count_where_it_matters_who_approves"),
    ),
    Mutation(
        "machine: nobody's rule counts as one of several approvers",
        APPROVALS,
        "          AND (j.approval >> 3 = 0 OR r.created_by IS NOT NULL)\n",
        "",
        _scene("a_rule_without_an_author_does_not_count_where_it_matters_who_approves"),
    ),
    Mutation(
        "machine: a schedule is fired by what was read before its edit",
        SCHEDULES,
        "WHERE s.name = :name::text AND s.version = :version::integer AND s.enabled\n",
        "WHERE s.name = :name::text\n",
        _scene("a_schedule_is_not_fired_by_what_was_read_before_it_was_paused"),
    ),
    Mutation(
        "machine: two schedulers take the same slots",
        SCHEDULES,
        "  AND s.next_at = :expected::timestamptz - {travelled} AND s.next_at <= clock_timestamp()\n",
        "",
        _scene("of_two_schedulers_one_takes_the_slots"),
    ),
    Mutation(
        "machine: a run that goes on does not overlap the next",
        SCHEDULES,
        "WHERE j.id = s.last_job AND j.finished_at IS NULL) AS busy",
        "WHERE j.id = s.last_job AND j.finished_at IS NOT NULL) AS busy",
        _scene("a_schedule_that_skips_does_not_overlap_its_run"),
    ),
    Mutation(
        "machine: a newcomer passes those who wait for a lock",
        LOCKS,
        "AND NOT w.held AND w.session <> :session::bigint)",
        "AND NOT w.held AND w.session = :session::bigint)",
        _scene("a_newcomer_does_not_pass_those_who_wait_for_a_lock"),
    ),
    Mutation(
        "machine: a lock goes to the one that came last",
        migration("lock_turns"),
        "ORDER BY k.since, k.session, k.n LIMIT 1",
        "ORDER BY k.since DESC, k.session, k.n LIMIT 1",
        _scene("a_lock_goes_to_the_one_that_has_waited_longest"),
    ),
    Mutation(
        "machine: waiting for a lock counts as being gone",
        LOCKS,
        "WHERE NOT EXISTS (SELECT 1 FROM here h WHERE h.pid = k.pid AND h.key = k.session)",
        "WHERE NOT EXISTS (SELECT 1 FROM here h WHERE h.pid = k.pid AND h.key = k.key)",
        _scene("a_process_that_waits_for_a_lock_is_not_taken_for_gone"),
    ),
    Mutation(
        "machine: an attempt goes on from an older checkpoint",
        PROGRESS,
        "ORDER BY s.saved_at DESC NULLS LAST LIMIT 1",
        "ORDER BY s.saved_at LIMIT 1",
        _scene("an_attempt_goes_on_from_its_newest_checkpoint"),
    ),
    Mutation(
        "machine: a stale claim saves a checkpoint",
        PROGRESS,
        "    AND j.id = :id::bigint AND j.fence = :fence::integer AND j.finished_at IS NULL FOR SHARE),\nolder",
        "    AND j.id = :id::bigint AND j.finished_at IS NULL FOR SHARE),\nolder",
        _scene("a_stale_claim_saves_no_checkpoint"),
    ),
    Mutation(
        "machine: a stale claim commits guarded rows",
        FINISH,
        "j.id = :id::bigint AND j.fence = :fence::integer AND j.finished_at IS NULL FOR SHARE",
        "j.id = :id::bigint AND j.finished_at IS NULL FOR SHARE",
        _scene("a_stale_claim_commits_no_guarded_rows"),
    ),
    Mutation(
        "machine: retention takes what is too young",
        UPKEEP,
        "x.finished_at >= r.pruned_to AND x.finished_at < r.until AND",
        "x.finished_at >= r.pruned_to AND x.finished_at < now() AND",
        _scene("retention_keeps_what_is_younger_than_its_rule"),
    ),
    Mutation(
        "machine: a scheduled job starts before its time",
        CLAIM,
        "ANY (:ids::bigint[]) AND j.state = 'queued' AND j.run_after <= statement_timestamp()\n  ORDER BY",
        "ANY (:ids::bigint[]) AND j.state = 'queued'\n  ORDER BY",
        _scene("a_scheduled_job_is_not_claimed_before_its_time"),
    ),
    Mutation(
        "machine: a job that is held for a person runs",
        UPKEEP,
        "WHEN p.policy = 'hold' THEN 'pending' ELSE 'queued' END AS state",
        "ELSE 'queued' END AS state",
        _scene("a_lost_job_of_a_kind_that_is_held_waits_for_a_person"),
    ),
    Mutation(
        "machine: a person who has approved approves again by a rule",
        APPROVALS,
        "          AND (coalesce(r.created_by, 'rule') = ANY (j.approvers)) IS NOT TRUE\n",
        "",
        _scene("a_person_who_has_approved_does_not_approve_again_by_a_rule"),
    ),
    Mutation(
        "machine: an order does not look whether its job is in sight",
        "desk/visible_jobs.py",
        "        if not self._guard.is_unlimited:\n            await self.one(job_id)\n",
        "",
        _scene("a_principal_without_a_tenant_orders_its_own_jobs_and_no_others"),
    ),
    Mutation(
        "machine: an order for many jobs reaches those out of sight",
        "desk/visible_jobs.py",
        "return list(numbers) if self._guard.is_unlimited else",
        "return list(numbers) if numbers else",
        _scene("many_jobs_are_cancelled_only_where_the_principal_may"),
    ),
    Mutation(
        "machine: the lane that would take a job counts after another has claimed it",
        "store/sql/history.sql",
        "coalesce(j.lane, (SELECT l.name FROM {schema}.lanes l WHERE j.kind = ANY (l.kinds) ORDER BY l.name LIMIT 1),",
        "coalesce((SELECT l.name FROM {schema}.lanes l WHERE j.kind = ANY (l.kinds) ORDER BY l.name LIMIT 1),",
        _scene("a_running_job_is_in_the_scope_of_the_lane_that_claimed_it"),
    ),
    Mutation(
        "machine: who is kept from approving by four eyes only approves what they submitted",
        CONTROL,
        "              WHEN {needs_others} AND j.submitted_by = :by_whom::text THEN 'own'\n",
        "",
        _scene("nobody_approves_their_own_job"),
    ),
    Mutation(
        "machine: ends are not counted",
        migration("counts"),
        "  FOR EACH STATEMENT EXECUTE FUNCTION {schema}.count_job_changes();",
        "  FOR EACH STATEMENT WHEN (false) EXECUTE FUNCTION {schema}.count_job_changes();",
        _scene("every_end_is_counted_once"),
    ),
)
_COMMON: Final = {
    "lives": "machine: a dead worker costs its jobs an attempt",
    "keyed": "machine: a job goes back beside its waiting twin",
    "answered": "machine: an approval outlives the arguments it was for",
    "asked": "machine: an order does not look whether its job is in sight",
    "limited": "machine: who gives a job back keeps its place",
    "composed": "machine: a step behind one that failed waits for ever",
    "together": "machine: a cancel takes the job from under its claimer",
    "fair": "machine: the sweep publishes a moment behind the head",
    "scheduled": "machine: two schedulers take the same slots",
}
"""For each random machine a rule that its steps meet again and again: whatever they are, they must notice."""


def _at_random(machine: str, name: str) -> Mutation:
    (scene,) = (mutation for mutation in _SCENES if mutation.name == name)
    test = f"tests/machine/test_machine.py::test_the_store_keeps_to_the_oracle[{machine}]"
    return replace(scene, name=name.replace("machine:", "random machine:"), tests=(test,))


MUTATIONS: Final = (
    *_SCENES,
    *(_at_random(machine, name) for machine, name in _COMMON.items()),
    _at_random("lives", "machine: ends are not counted"),
)
