"""Mutations of a job's way through a worker."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

EXECUTORS: Final = "tests/flow/executors/test_executors.py::test_"
CLAIM: Final = "flow/claim/claimer.py"
SATURATION: Final = "flow/claim/saturation.py"
CURSORS: Final = "flow/claim/cursors.py"
AT_CURSORS: Final = "tests/flow/claim/test_cursors.py::test_"
OF_CLAIM_LOOP: Final = "tests/flow/worker/test_claim_loop.py::test_"
OF_SUPERVISION: Final = "tests/flow/supervise/test_supervisor.py::test_"
SUPERVISED: Final = "tests/torture/test_supervised.py::test_"

OF_EXCEPTIONS: Final = "tests/flow/executors/test_foreign_exceptions.py::test_"
OF_ENCODINGS: Final = "tests/flow/finish/test_other_encodings.py::test_"
OF_HELD_SLOTS: Final = "tests/flow/worker/test_held_slots.py::test_"
OF_EXITS: Final = "tests/flow/run/test_process_exits.py::test_"

MUTATIONS: Final = (
    Mutation(
        "an exception outside Exception is no failure of its attempt",
        "flow/run/attempt.py",
        "if self._from_outside(error):",
        "if not isinstance(error, Exception):",
        (f"{OF_EXCEPTIONS}the_attempt_fails_with_the_error_and_counts[process.foreign.async]",),
    ),
    Mutation(
        "an exit in an item's task ends the worker",
        "flow/progress/items.py",
        "raise _AttemptEnds(error) from error",
        "raise",
        (f"{OF_EXCEPTIONS}the_attempt_fails_with_the_error_and_counts[loop.foreign.items]",),
    ),
    Mutation(
        "an exit in a task that a handler started ends the loop",
        "flow/run/process_exits.py",
        "if task.done() or raised_by_signal(error):",
        "if True:",
        (f"{OF_EXITS}the_loop_goes_on_when_a_task_beside_it_exits",),
    ),
    Mutation(
        "a handler's exit is taken for a signal's",
        "flow/run/process_exits.py",
        "return raiser is not None and raiser in (",
        "return raiser is not None or raiser in (",
        (f"{OF_EXITS}an_exit_is_a_signals_only_if_its_handler_raised_it",),
    ),
    Mutation(
        "a handler that computes never lets the loop turn",
        "flow/progress/loop_share.py",
        "if held < HELD_TOO_LONG:",
        "if True:",
        (
            "tests/flow/progress/test_loop_share.py::test_others_run_beside_a_handler_that_computes_and_it_hears_a_cancel",
        ),
    ),
    Mutation(
        "a step does not know its name",
        "flow/progress/attempt_io.py",
        'step=row["step"],',
        "step=None,",
        ("tests/flow/executors/test_step_names.py::test_a_step_knows_its_workflow_and_its_name",),
    ),
    Mutation(
        "an error that the encoding lacks ends its job",
        "flow/finish/finisher.py",
        "if (readable := in_ascii(bad.write)) is not None:",
        "if (readable := None) is not None:",
        (f"{OF_ENCODINGS}an_error_that_cannot_be_stored_as_it_is_costs_one_attempt[LATIN1]",),
    ),
    Mutation(
        "a log line that the encoding lacks is dropped",
        "flow/progress/reporter.py",
        "if plain != replace(one.snapshot, lines=list(one.snapshot.lines)):",
        "if False:",
        ("tests/flow/finish/test_other_encodings.py::test_progress_items_and_logs_are_stored_with_escapes[LATIN1]",),
    ),
    Mutation(
        "a slot that a stopped handler holds looks free",
        "flow/worker/slots.py",
        'if attempt.reason == "lost"]',
        'if attempt.reason == "none of them"]',
        (f"{OF_HELD_SLOTS}a_handler_that_goes_on_holds_its_slot_in_every_view[while it is being stopped]",),
    ),
    Mutation(
        "a worker stays though one of its lanes can run nothing",
        "flow/worker/recycling.py",
        "elif most and stuck_lanes:",
        "elif False:",
        (f"{OF_HELD_SLOTS}a_worker_with_a_lane_of_stuck_handlers_asks_to_be_replaced",),
    ),
    Mutation(
        "a principal sees whose handlers are stuck",
        "desk/workers.py",
        'if not numbers or guard.visibility["sees_all"]:',
        "if True:",
        (f"{OF_HELD_SLOTS}a_handler_that_goes_on_holds_its_slot_in_every_view[once it is given up]",),
    ),
    Mutation(
        "a worker that was full tells nobody that it is idle",
        "flow/worker/worker.py",
        "if not self._hungry and now >= self._hungry_again:",
        "if False:",
        ("tests/flow/worker/test_waking.py::test_a_worker_that_was_full_is_woken_as_soon_as_it_is_idle",),
    ),
    Mutation(
        "suspects run among the others",
        "flow/worker/slots.py",
        'if row["losses"] and self._children.isolates(handler):',
        "if False:",
        (f"{EXECUTORS}a_suspect_runs_alone_in_a_child_and_innocents_complete",),
    ),
    Mutation(
        "a job that kills its process is never quarantined",
        "flow/run/verdict.py",
        "if deaths >= (max_deaths if limit is None else limit or math.inf):",
        "if deaths > 100:",
        (f"{EXECUTORS}a_job_that_kills_its_process_is_quarantined_alone",),
    ),
    Mutation(
        "the last news of an attempt are overtaken by its outcome",
        "flow/progress/attempt_io.py",
        "if self._report is not None and (self._report.dirty or self._report.writing):",
        "if False:",
        ("tests/flow/progress/test_job_logs.py::test_threads_and_handlers_without_a_context_are_heard_too",),
    ),
    Mutation(
        "a stuck handler gives its slot away",
        "flow/worker/slots.py",
        'self._in_use[attempt.row["lane"]] += 1\n            self._stuck',
        "self._stuck",
        (f"{EXECUTORS}a_cancel[thread.spins]",),
    ),
    Mutation(
        "a child that does not stop is not killed",
        "flow/executors/child_handle.py",
        "                    self.kill()\n                    kill_at = None\n",
        "                    kill_at = None\n",
        (f"{EXECUTORS}a_cancel[process.deaf]",),
    ),
    Mutation(
        "memory is not watched",
        "flow/executors/child_handle.py",
        "if kind.memory else None",
        "if False else None",
        (f"{EXECUTORS}a_job_that_eats_memory_fails_and_nobody_else[hog.slow-its limit is 190.7 MiB]",),
    ),
    Mutation(
        "memory is not limited",
        "flow/executors/child_main.py",
        "    elif memory is not None:\n",
        "    elif False:\n",
        (f"{EXECUTORS}a_job_that_eats_memory_fails_and_nobody_else[hog.fast-]",),
    ),
    Mutation(
        "lagged look off",
        CURSORS,
        "return low[pair] - LAG if looks_back",
        "return low[pair] if looks_back",
        (f"{AT_CURSORS}a_late_commit_is_found_by_the_lagged_look_within_a_second",),
    ),
    Mutation(
        "low_water ignored",
        CURSORS,
        "self._low[pair] = self._age[pair] = min(low_water, self._low[pair])",
        "low_water",
        (f"{AT_CURSORS}a_commit_later_than_the_lag_is_found_by_the_sweeps_low_water",),
    ),
    Mutation(
        "wake-ups lower no cursor",
        CURSORS,
        "self._low[pair] = self._age[pair] = min(run_after, self._low.get(pair, BEGINNING))",
        "self._age[pair] = self._low.setdefault(pair, BEGINNING)",
        (f"{AT_CURSORS}a_late_commit_is_found_by_the_wake_up_that_names_it",),
    ),
    Mutation(
        "a second producer of a moment tells nobody",
        "flow/enqueue/producer.py",
        "if notified is False:",
        "if notified is None:",
        ("tests/flow/worker/test_waking.py::test_the_first_job_after_a_pause_carries_its_wake_up",),
    ),
    Mutation(
        "crowded lanes forget those that were left out",
        CLAIM,
        "for name in self._waiting | self._saturation.names if",
        "for name in self._saturation.names if",
        (f"{AT_CURSORS}a_lane_that_was_left_out_is_worth_asking_though_it_had_nothing_before",),
    ),
    Mutation(
        "a claim of the oldest pairs that came back short is believed",
        SATURATION,
        "if filled or not all_pairs:",
        "if filled:",
        (f"{AT_CURSORS}a_lane_that_its_oldest_pairs_do_not_fill_is_looked_at_whole",),
    ),
    Mutation(
        "a lower priority overtakes in a crowded lane",
        SATURATION,
        "return above + self._cursors.oldest(wide, len(wide) if lane.name in self._short else few)",
        "return self._cursors.oldest(pairs, len(wide) if lane.name in self._short else few)",
        (f"{AT_CURSORS}no_priority_is_overtaken_because_a_lane_is_crowded",),
    ),
    Mutation(
        "a pair that gave nothing stays the oldest",
        SATURATION,
        "self._cursors.passed((pair for pair, _ in (probes[:last] if filled else probes)), began)",
        "pass",
        (f"{AT_CURSORS}pairs_that_have_run_dry_do_not_keep_a_crowded_lane_from_the_others",),
    ),
    Mutation(
        "a full lane is not worth more beside an empty one",
        CLAIM,
        "self._saturation.record(name, filled=taken[name] >= n,",
        "self._saturation.record(name, filled=taken.total() >= sum(wanted.values()),",
        (f"{AT_CURSORS}a_lane_that_is_full_of_jobs_is_worth_more_whatever_its_neighbours_have",),
    ),
    Mutation(
        "a lane that its cap keeps closed is asked once more",
        CLAIM,
        "filled=taken[name] >= n,",
        "filled=taken[name] >= min(n, 1),",
        (f"{AT_CURSORS}a_lane_that_its_cap_keeps_closed_is_not_worth_asking_at_once",),
    ),
    Mutation(
        "beside merged heads a crowded lane is read whole",
        CLAIM,
        "take = 0 if name in saturated else _take(",
        "take = _take(",
        (f"{AT_CURSORS}a_crowded_lane_is_emptied_pair_by_pair_beside_lanes_whose_heads_are_merged",),
    ),
    Mutation(
        "a lane that rests is asked for ever",
        CLAIM,
        " if not self._rests(name)}\n\n    async def claim(",
        "}\n\n    async def claim(",
        (f"{AT_CURSORS}a_lane_that_rests_is_not_worth_asking",),
    ),
    Mutation(
        "a released step passes the rate of its lane",
        CLAIM,
        "max_total is None and self._lanes[lane].rate is None:",
        "max_total is None:",
        ("tests/flow/worker/test_chain_fast_path.py::test_a_released_step_counts_for_the_rate_of_its_lane",),
    ),
    Mutation(
        "higher priorities of a crowd are emptied by name",
        SATURATION,
        "self._cursors.oldest(level, len(level))",
        "level",
        (f"{AT_CURSORS}the_higher_priorities_of_a_crowded_lane_are_emptied_by_age_too",),
    ),
    Mutation(
        "a level that was not read is taken for young",
        SATURATION,
        "if p[1] == lowest and p not in furthest",
        "if p not in furthest",
        (f"{AT_CURSORS}a_level_that_was_not_read_is_not_taken_for_young",),
    ),
    Mutation(
        "what is heard of during a claim is taken for young",
        CURSORS,
        "            if pair not in self._announced:\n                self._age[pair] = max(run_after",
        "            if pair:\n                self._age[pair] = max(run_after",
        (f"{AT_CURSORS}what_is_heard_of_during_a_claim_stays_old",),
    ),
    Mutation(
        "a worker that was full rests as long as an idle one",
        "flow/worker/claim_loop.py",
        "                idle = _IDLE_FROM\n                await self._claim_now.wait()",
        "                await self._claim_now.wait()",
        (f"{OF_CLAIM_LOOP}a_worker_that_was_full_looks_again_soon_after_its_job",),
    ),
    Mutation(
        "a full lane keeps its worker from resting",
        "flow/worker/claim_loop.py",
        "return bool(backlogged) and not backlogged.isdisjoint(self._wanted())",
        "return bool(backlogged)",
        (f"{OF_CLAIM_LOOP}one_that_has_more_and_no_slot_does_not_keep_the_worker_from_resting",),
    ),
    Mutation(
        "a bulk stores what an enum is shown as",
        "store/bulk.py",
        "return str.translate(value, _SPECIAL)",
        "return str(value).translate(_SPECIAL)",
        ("tests/flow/enqueue/test_enqueue_many.py::test_an_enum_that_is_a_text_or_a_number_is_stored_as_such",),
    ),
    Mutation(
        "a beat looks for duties whatever it costs",
        "flow/worker/heartbeat.py",
        "look = began >= self._look_at",
        "look = True",
        ("tests/flow/worker/test_heartbeat.py::test_a_dear_look_for_duties_is_taken_more_rarely",),
    ),
    Mutation(
        "a wake-up during a claim is undone",
        CURSORS,
        "            if pair not in self._announced:\n                self._low",
        "            if pair:\n                self._low",
        (f"{AT_CURSORS}a_job_that_commits_while_an_empty_claim_is_under_way_is_not_skipped",),
    ),
    Mutation(
        "parked jobs look like an empty queue",
        CLAIM,
        'taken = Counter(row["lane"] for answer in answers for row in answer.rows)',
        'taken = Counter(row["lane"] for answer in answers for row in answer.rows if not row["parked"])',
        (f"{AT_CURSORS}jobs_parked_at_a_gate_do_not_hide_those_behind_them",),
    ),
    Mutation(
        "cold pairs count as seen by a full claim",
        CURSORS,
        "            if drained:\n                self._unseen",
        "            if not self._unseen or True:\n                self._unseen",
        (f"{AT_CURSORS}five_hundred_pairs_are_served",),
    ),
    Mutation(
        "every job of a blocked loop is blamed",
        "flow/worker/worker.py",
        "suspects = self._slots.claims_on_loop() if claim is None else [claim]",
        "suspects = self._slots.claims_on_loop() if claim or True else [claim]",
        (f"{OF_SUPERVISION}a_blocked_worker_blames_one_gives_back_the_rest_and_lets_its_heir_take_over",),
    ),
    Mutation(
        "the dead wait for their silence",
        "flow/supervise/supervisor.py",
        "            self._dead[process.worker_id] = _RESCUES\n",
        "            pass\n",
        (f"{SUPERVISED}a_killed_process_is_replaced_and_its_jobs_rescued_at_once",),
    ),
    Mutation(
        "a supervisor vouches for a stopped process",
        "flow/supervise/worker_process.py",
        "if self.running and not self.stopped else None",
        "if self.running else None",
        (f"{SUPERVISED}a_stopped_process_is_neither_vouched_for_nor_killed",),
    ),
    Mutation(
        "a process may outlive its killed supervisor",
        "flow/executors/os_process.py",
        "        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)\n",
        "        pass\n",
        (f"{SUPERVISED}no_process_outlives_a_killed_supervisor",),
    ),
    Mutation(
        "a lane's approval is waived where the lanes cannot be read",
        "flow/enqueue/lane_policy.py",
        "        if not self.is_unknown:\n            return self.policy\n",
        "        if self.is_unknown:\n            return self.policy\n",
        ("tests/desk/test_approvals.py::test_a_lane_that_cannot_be_read_lets_nothing_through",),
    ),
    Mutation(
        "two writes of one job go out in one flush",
        "flow/finish/finisher.py",
        "writing = newest.values()",
        "writing = batch",
        (
            "tests/flow/finish/test_finisher.py::test_of_two_claims_of_a_job_in_one_flush_only_the_current_one_is_told_accepted",
        ),
    ),
    Mutation(
        "acceptance is told by job",
        "flow/finish/finisher.py",
        "lost = [f for f in batch if f.claim not in accepted]",
        "lost = [f for f in batch if f.claim.job_id not in {claim.job_id for claim in accepted}]",
        (
            "tests/flow/finish/test_finisher.py::test_of_two_claims_of_a_job_in_one_flush_only_the_current_one_is_told_accepted",
        ),
    ),
    Mutation(
        "a plain annotation is read as another type",
        "flow/kinds/schema.py",
        '    (bool, "bool"),\n',
        '    (bool, "int"),\n',
        ("tests/flow/kinds/test_schema.py::test_the_schema_of_a_plain_annotation_is_the_one_pydantic_makes",),
    ),
    Mutation(
        "every worker loads the search grammar for its duties",
        "upkeep/repair.py",
        "    if not rows:\n        return 0\n    # Imports the whole",
        "    # Imports the whole",
        ("tests/cli/test_lean.py::test_a_worker_that_ran_jobs_and_every_duty_brings_nothing_heavy",),
    ),
    Mutation(
        "arguments are nested deeper than they can be read",
        "flow/kinds/json_values.py",
        'data.count(b"{") > DEEPEST and _levels(data) > DEEPEST',
        'data.count(b"{") > 10 * DEEPEST and _levels(data) > 10 * DEEPEST',
        ("tests/fuzz/test_values.py::test_every_argument_arrives_as_it_was_sent_or_is_refused_at_once",),
    ),
    Mutation(
        "a job's cancel, stop or lost claim makes every worker beat",
        "flow/worker/worker.py",
        "if self._claimer.in_flight or self._slots.runs_any_of(job_ids):",
        "if True:",
        ("tests/flow/worker/test_messages.py::test_cancels_and_stops_of_jobs_elsewhere_make_no_worker_beat",),
    ),
    Mutation(
        "an awaited end makes every worker beat",
        "flow/worker/worker.py",
        "            case AwaitedEnds() | LockReleased():\n                pass\n",
        "            case AwaitedEnds() | LockReleased():\n                self._heartbeat.beat_now()\n",
        ("tests/flow/worker/test_messages.py::test_an_end_that_others_await_makes_no_worker_beat",),
    ),
)
