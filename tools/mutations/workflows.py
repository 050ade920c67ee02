"""Mutations of workflows, chains and signals."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation, migration

STEP: Final = "store/migrations/0009_workflows.up.sql"
LOCK_ORDER: Final = migration("lock_order")
SQL: Final = "store/sql/workflows.sql"
OF_STORE: Final = "tests/store/test_workflows.py::test_"
OF_RACES: Final = "tests/races/test_workflows_at_once.py::test_"
OF_UNDO: Final = "tests/store/test_undo.py::test_"
OF_DUTIES: Final = "tests/upkeep/test_workflow_duties.py::test_"
OF_CHAIN: Final = "tests/flow/worker/test_chain_fast_path.py::test_"

MUTATIONS: Final = (
    Mutation(
        "ends are followed without holding the workflow",
        migration("refused_rows"),
        "PERFORM 1 FROM {schema}.workflows w WHERE w.id = ANY (v_flows) ORDER BY w.id FOR UPDATE;",
        "",
        (OF_RACES + "two_who_follow_the_same_end_count_it_once",),
    ),
    Mutation(
        "a bad undo is written",
        STEP,
        "IF v_why IS NOT NULL THEN\n    RAISE EXCEPTION 'What takes step",
        "IF false THEN\n    RAISE EXCEPTION 'What takes step",
        (OF_UNDO + "an_undo_that_could_not_be_written_later_is_refused_with_its_plan",),
    ),
    Mutation(
        "an undo that cannot be written fails the jobs of others",
        migration("refused_rows"),
        "EXCEPTION WHEN integrity_constraint_violation OR data_exception",
        "EXCEPTION WHEN division_by_zero",
        (OF_UNDO + "an_undo_that_cannot_be_written_fails_nobody_elses_job",),
    ),
    Mutation(
        "rules are not asked when a step is released",
        STEP,
        "IF v_asked IS NOT NULL THEN",
        "IF false THEN",
        (OF_UNDO + "a_rule_approves_a_step_when_its_turn_comes",),
    ),
    Mutation(
        "a deleted step is no reason",
        STEP,
        "AND (s.gone OR (j.state = 'cancelled'",
        "AND (false OR (j.state = 'cancelled'",
        (OF_DUTIES + "a_step_whose_row_somebody_deleted_counts_as_cancelled",),
    ),
    Mutation(
        "two workflows of one key go on",
        migration("losses"),
        "EXCEPTION WHEN unique_violation THEN v_why := 'taken';",
        "EXCEPTION WHEN division_by_zero THEN v_why := 'taken';",
        (OF_RACES + "a_workflow_goes_on_unless_another_one_of_its_key_begins",),
    ),
    Mutation(
        "blocked steps are not found",
        "store/sql/history.sql",
        "WHERE (w.go IS NULL OR w.signal IS NOT NULL) AND 'blocked'",
        "WHERE false AND 'blocked'",
        ("tests/desk/explain/test_blocked.py::test_everything_that_is_blocked_is_counted_and_found",),
    ),
    Mutation(
        "a cancelled workflow takes nothing back but its last step",
        migration("refused_rows"),
        "(WHERE d.go AND (NOT f.cancel_requested OR f.state = 'compensating'))",
        "(WHERE d.go AND NOT f.cancel_requested)",
        (OF_STORE + "several_steps_of_a_cancelled_workflow_are_taken_back",),
    ),
    Mutation(
        "a cancelled workflow still releases steps",
        migration("refused_rows"),
        "(WHERE d.go AND (NOT f.cancel_requested OR f.state = 'compensating'))",
        "(WHERE d.go)",
        (OF_RACES + "a_cancel_and_a_finish_leave_nothing_running",),
    ),
    Mutation(
        "a lost claim adds steps",
        LOCK_ORDER,
        "WHERE j.id = p_job AND j.fence = p_fence AND j.finished_at IS NULL FOR SHARE;",
        "WHERE j.id = p_job FOR SHARE;",
        (OF_RACES + "a_claim_that_is_revoked_at_this_moment_adds_nothing",),
    ),
    Mutation(
        "a signal is sent without holding the job's row",
        STEP,
        "FROM {schema}.jobs j WHERE j.id = p_job FOR NO KEY UPDATE;\n  IF NOT FOUND THEN RETURN QUERY SELECT 'missing'",
        "FROM {schema}.jobs j WHERE j.id = p_job;\n  IF NOT FOUND THEN RETURN QUERY SELECT 'missing'",
        (OF_RACES + "a_signal_that_comes_while_a_job_suspends_is_not_lost",),
    ),
    Mutation(
        "a delay counts again after a signal",
        STEP,
        "CASE WHEN w.signal IS NULL THEN w.delay END AS delay",
        "w.delay",
        (OF_STORE + "a_step_that_waits_for_a_signal_stays_in_its_workflow",),
    ),
    Mutation(
        "a chain passes jobs of a higher priority",
        "store/sql/claim.sql",
        "      WHERE p.priority > j.priority)",
        "      WHERE false)",
        (OF_CHAIN + "a_released_step_respects_what_holds_for_any_job",),
    ),
    Mutation(
        "a chain takes slots that are not free",
        "flow/worker/chain_fast_path.py",
        "if lane is None or room[lane.name] <= 0:",
        "if lane is None:",
        (OF_CHAIN + "a_released_step_respects_what_holds_for_any_job",),
    ),
    Mutation(
        "released steps go through the queue",
        "flow/worker/chain_fast_path.py",
        "            lane = self._lane_for(step)\n",
        "            lane = None\n",
        (OF_CHAIN + "a_chain_goes_on_in_the_process_that_finished_its_last_step",),
    ),
    Mutation(
        "steps are pruned before their workflow has ended",
        "store/sql/upkeep.sql",
        "AND x.finished_at IS NOT NULL AND x.workflow_id IS NULL",
        "AND x.finished_at IS NOT NULL",
        (OF_STORE + "a_step_stays_while_its_workflow_goes_on",),
    ),
    Mutation(
        "what stands by for a failure is the result of a workflow",
        "compose/workflow.py",
        "        standby = _standby(self._edges)\n",
        "        standby: set[str] = set()\n",
        ("tests/compose/test_running.py::test_steps_that_stand_by_for_a_failure_are_no_result",),
    ),
)
