"""Mutations of the statements that move jobs: enqueue, claim, finish, control, upkeep, gates."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation, migration

CONTROL: Final = "store/sql/control.sql"
STREAMED: Final = "tests/desk/follow/test_stream.py::test_"
UPKEEP: Final = "store/sql/upkeep.sql"
OF_DUTIES: Final = "tests/upkeep/test_duties.py::test_"
FINISH: Final = "store/sql/finish.sql"
STALE: Final = (
    "tests/store/test_transitions.py::"
    "test_a_stale_claim_writes_nothing_and_its_worker_learns_whether_its_own_write_stands"
)
OF_PLANS: Final = "tests/store/test_plans.py::test_"
WALK: Final = "tests/store/test_transitions.py::test_a_verb_leads_where_the_model_says_and_adds_one_to_the_fence"
CLAIM: Final = "store/sql/claim.sql"
AT_ONCE: Final = "tests/races/test_two_at_once.py::test_"
GATES: Final = "store/migrations/0001_initial.up.sql"
AT_GATES: Final = "tests/races/test_gates_at_once.py::test_"
OF_GATES: Final = "tests/store/test_gates.py::test_"
ENQUEUE: Final = "store/sql/enqueue.sql"
OF_RETENTION: Final = "tests/upkeep/test_retention.py::test_"
SCHEDULES: Final = "store/sql/schedules.sql"
OF_CRON: Final = "tests/upkeep/test_schedule_runner.py::test_"
OF_SUPERVISION: Final = "tests/flow/supervise/test_supervisor.py::test_"

MUTATIONS: Final = (
    Mutation(
        "acts have no place in the life of their job",
        CONTROL,
        "jsonb_build_object('fence', j.fence, 'seq', j.seq)",
        "jsonb_build_object('fence', 0, 'seq', 0)",
        (f"{STREAMED}a_life_is_told_from_the_rows_alone_and_from_every_event_on",),
    ),
    Mutation(
        "two eyes are four",
        CONTROL,
        "WHEN j.approval & 4 <> 0 AND coalesce(j.submitted_by = :by_whom::text, true) THEN 'own'",
        "WHEN false THEN 'own'",
        ("tests/desk/test_approvals.py::test_four_eyes_are_not_those_of_the_submitter",),
    ),
    Mutation(
        "a rule approves its author's own jobs",
        migration("anonymous_rules"),
        "AND (coalesce(r.created_by = j.submitted_by, false) OR EXISTS (",
        "AND (EXISTS (",
        ("tests/desk/test_approvals.py::test_a_rule_is_the_approval_of_its_author_and_of_one_person",),
    ),
    Mutation(
        "a job that reports is given up all the same",
        UPKEEP,
        "greatest(j.claimed_at, r.reported_at) < clock_timestamp()",
        "j.claimed_at < clock_timestamp()",
        (f"{OF_DUTIES}a_job_without_progress_is_lost_though_its_worker_lives",),
    ),
    Mutation(
        "a shared loss counts at once",
        UPKEEP,
        "CASE WHEN k.isolates THEN NULL ELSE :max_losses::integer END",
        ":max_losses::integer",
        (f"{OF_DUTIES}a_job_is_lost_as_often_as_it_may_be_and_then_fails[rescue-True-None-7-7]",),
    ),
    Mutation(
        "a job may be lost more often than it may be attempted",
        UPKEEP,
        "greatest(j.max_attempts, 2)",
        "15",
        (f"{OF_DUTIES}a_job_is_lost_as_often_as_it_may_be_and_then_fails[stalled-True-None-3-3]",),
    ),
    Mutation(
        "the first loss fails a job that has one attempt",
        UPKEEP,
        "greatest(j.max_attempts, 2)",
        "j.max_attempts",
        (f"{OF_DUTIES}a_job_is_lost_as_often_as_it_may_be_and_then_fails[rescue_dead-True-None-1-2]",),
    ),
    Mutation(
        "what a kind says about losses is ignored",
        UPKEEP,
        "coalesce(k.max_losses, least(",
        "coalesce(NULL, least(",
        (f"{OF_DUTIES}a_job_is_lost_as_often_as_it_may_be_and_then_fails[rescue-True-1-7-1]",),
    ),
    Mutation(
        "a person's retry forgets the runs before",
        "store/sql/control.sql",
        "runs_before = coalesce(j.runs_before, 0) + j.attempt + j.losses + j.refunds, ",
        "",
        (f"{OF_DUTIES}the_number_of_runs_only_grows",),
    ),
    Mutation(
        "complete without the fence",
        FINISH,
        "j.claimed_by = :worker::bigint AND j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL\n\n",
        "j.id = d.id AND j.finished_at IS NULL\n\n",
        (STALE,),
    ),
    Mutation(
        "complete names the state (wrong index)",
        FINISH,
        "j.claimed_by = :worker::bigint AND j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL\n\n",
        "j.id = d.id AND j.fence = d.fence AND j.state = 'running'\n\n",
        (f"{OF_PLANS}a_completion_of_ten_goes_by_the_primary_key",),
    ),
    Mutation(
        "no fence bump on requeue",
        FINISH,
        "fence = j.fence + 1, seq = j.seq + 1, gate_place = 0, rate_turn",
        "fence = j.fence, seq = j.seq + 1, gate_place = 0, rate_turn",
        (STALE,),
    ),
    Mutation(
        "no fence bump on stop",
        CONTROL,
        "errors = coalesce(:error::jsonb, j.errors), fence = j.fence + 1",
        "errors = coalesce(:error::jsonb, j.errors), fence = j.fence",
        (f"{WALK}[stop]",),
    ),
    Mutation(
        "no fence bump on a person's retry",
        CONTROL,
        "run_after = clock_timestamp(), fence = j.fence + 1",
        "run_after = clock_timestamp(), fence = j.fence",
        (f"{WALK}[retry]",),
    ),
    Mutation(
        "claim waits for locked rows",
        CLAIM,
        " SKIP LOCKED",
        "",
        (f"{AT_ONCE}claim_and_claim_never_take_one_job_and_never_wait",),
        count=0,
    ),
    Mutation(
        "claim does not judge the newest row",
        CLAIM,
        "WHERE j.id = m.id AND j.state = 'queued' AND j.run_after <= statement_timestamp()",
        "WHERE j.id = m.id AND j.state = 'queued'",
        (f"{AT_ONCE}a_job_given_back_into_the_future_meanwhile_is_not_claimed_early",),
    ),
    Mutation(
        "a gate is judged before it is locked",
        migration("refused_row_warnings"),
        "    SELECT * INTO g FROM {schema}.gates x WHERE x.key = v_key FOR UPDATE;\n    IF NOT FOUND",
        "    SELECT * INTO g FROM {schema}.gates x WHERE x.key = v_key;\n    IF NOT FOUND",
        (
            f"{AT_GATES}a_newcomer_waits_for_a_leaver_and_gets_its_place",
            f"{AT_GATES}a_leave_that_commits_while_a_newcomer_is_judged_wakes_it",
        ),
    ),
    Mutation(
        "a leaver promotes nobody",
        GATES,
        "ELSE {schema}.gate_promote(g.key, g.max_running - v_held) END",
        "ELSE 0 END",
        (f"{AT_GATES}a_leave_waits_for_a_newcomer_that_is_parking_and_then_promotes_it",),
    ),
    Mutation(
        "FIFO lets newcomers overtake",
        migration("refused_row_warnings"),
        "      v_free := 0;  ",
        "      NULL;  ",
        (f"{OF_GATES}a_newcomer_may_take_a_free_place_beside_the_parked_unless_fifo",),
    ),
    Mutation(
        "a rescue gives its places back once per job",
        UPKEEP,
        "FROM moved m CROSS JOIN places",
        "FROM moved m CROSS JOIN (SELECT {left_places} AS promoted, {followed} FROM moved m) AS places",
        (f"{OF_GATES}a_rescue_of_several_jobs_gives_each_place_back_once",),
        count=4,
    ),
    Mutation(
        "rescue keeps the owner on the job",
        FINISH,
        "      claimed_by = l.owner\n",
        "      claimed_by = j.claimed_by\n",
        (STALE,),
    ),
    Mutation(
        "settled says always applied",
        FINISH,
        "SELECT d.id, d.fence, (j.fence = d.fence + 1",
        "SELECT d.id, d.fence, true OR (j.fence = d.fence + 1",
        (STALE,),
    ),
    Mutation(
        "settled says never applied",
        FINISH,
        "SELECT d.id, d.fence, (j.fence = d.fence + 1 AND j.claimed_by = :worker::bigint)",
        "SELECT d.id, d.fence, (j.fence = d.fence + 9 AND j.claimed_by = :worker::bigint)",
        (STALE,),
    ),
    Mutation(
        "a cancel does not win over a retry",
        FINISH,
        "(l.state <> 'failed' AND (j.cancel_requested OR was.twin IS NOT NULL))",
        "(l.state <> 'failed' AND was.twin IS NOT NULL)",
        (f"{AT_ONCE}a_cancel_that_commits_while_a_retry_waits_for_the_row_wins",),
    ),
    Mutation(
        "twins of one batch are not seen",
        FINISH,
        "AND t.id > me.id AND o.state <> 'failed'",
        "AND t.id < 0 AND o.state <> 'failed'",
        (f"{AT_ONCE}several_running_jobs_of_one_key_come_back_in_one_statement",),
    ),
    Mutation(
        "a void approval keeps its place in the gate",
        ENQUEUE,
        "gate_place = CASE WHEN {asked_again} OR o.gate_key",
        "gate_place = CASE WHEN o.gate_key",
        (f"{OF_GATES}a_parked_job_whose_approval_became_void_is_not_promoted_past_the_approver",),
    ),
    Mutation(
        "rescue judges right after an outage",
        UPKEEP,
        "    AND coalesce(l.stale_after, interval '60 s') <= :watched::interval\n",
        "    AND :watched::interval IS NOT NULL\n",
        (f"{OF_DUTIES}nobody_is_judged_before_this_process_has_watched_for_the_heartbeat_timeout",),
    ),
    Mutation(
        "every caretaker wins every round",
        UPKEEP,
        "WHERE d.name = :name::text\n  AND NOT d.last_run_at BETWEEN",
        "WHERE d.name = :name::text\n  OR NOT d.last_run_at BETWEEN",
        (f"{OF_DUTIES}two_duty_runners_share_the_duties",),
    ),
    Mutation(
        "a wider retention rule takes what a narrower one keeps",
        UPKEEP,
        "AND NOT EXISTS (SELECT 1 FROM {schema}.retention s\n",
        "AND NOT EXISTS (SELECT 1 FROM {schema}.retention s JOIN {schema}.jobs ON false\n",
        (f"{OF_RETENTION}the_most_specific_rule_decides",),
    ),
    Mutation(
        "neighbours of a blocked loop are judged like the culprit",
        "store/sql/workers.sql",
        "SELECT x.id, x.fence, CASE WHEN b.id IS NULL THEN 'queued' ELSE x.state END AS state,",
        "SELECT x.id, x.fence, x.state,",
        (f"{OF_SUPERVISION}unblock_gives_neighbours_back_whatever_their_kinds_policy",),
    ),
    Mutation(
        "two schedulers fire one slot",
        SCHEDULES,
        "  AND s.next_at = :expected::timestamptz - {travelled} AND s.next_at <= clock_timestamp()",
        "  AND :expected::timestamptz IS NOT NULL",
        (f"{OF_CRON}of_many_schedulers_one_fires_a_slot",),
    ),
    Mutation(
        "an old reading of a schedule fires after its edit",
        SCHEDULES,
        "s.version = :version::integer AND s.enabled\n",
        "(:version::integer IS NULL OR s.enabled)\n",
        (f"{OF_CRON}an_edit_meanwhile_keeps_an_old_reading_from_firing",),
    ),
    Mutation(
        "beats hurry for a slot that nobody can fire",
        "store/sql/workers.sql",
        "WHERE s.enabled AND s.next_at > now() ORDER BY s.next_at LIMIT 1) AS schedule_in",
        "WHERE s.enabled ORDER BY s.next_at LIMIT 1) AS schedule_in",
        (f"{OF_CRON}the_beat_does_not_hurry_for_what_nobody_can_fire",),
    ),
)
