"""Break the engine on purpose and see the tests turn red: a mutation that survives is a rule nobody guards.

    python tools/mutations.py [WORD …]     only mutations whose name contains one of the words

Each mutation is applied to a scratch copy of src, which the named tests import instead of the real one. Exit code 1: a
mutation survived, did not apply, or the tests were red before anything was broken.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
RED: Final = 1
"""pytest's exit code for tests that ran and failed; anything else is a mistake of ours."""
FINISH, CLAIM, CONTROL = "store/sql/finish.sql", "store/sql/claim.sql", "store/sql/control.sql"
UPKEEP, CURSORS = "store/sql/upkeep.sql", "flow/claim.py"
GATES, ENQUEUE = "store/migrations/0001_initial.up.sql", "store/sql/enqueue.sql"
STALE = (
    "tests/store/test_transitions.py::"
    "test_a_stale_claim_writes_nothing_and_its_worker_learns_whether_its_own_write_stands"
)
WALK = "tests/store/test_transitions.py::test_a_verb_leads_where_the_model_says_and_adds_one_to_the_fence"
AT_CURSORS, AT_GATES = "tests/store/test_cursors.py::test_", "tests/races/test_gates_at_once.py::test_"
AT_ONCE, OF_GATES = "tests/races/test_two_at_once.py::test_", "tests/store/test_gates.py::test_"
OF_DUTIES, OF_RETENTION = "tests/upkeep/test_duties.py::test_", "tests/upkeep/test_retention.py::test_"
OF_PLANS = "tests/store/test_plans.py::test_"
PROGRESS, OF_ITEMS = "store/sql/progress.sql", "tests/flow/test_items.py::test_"
OF_ACCESS, OF_TOKENS = "tests/desk/test_access.py::test_", "tests/desk/test_tokens.py::test_"
STREAMED = "tests/desk/test_stream.py::test_"
EXECUTORS = "tests/executors/test_executors.py::test_"
OF_SUPERVISION, SUPERVISED = "tests/flow/test_supervise.py::test_", "tests/torture/test_supervised.py::test_"


@dataclass(frozen=True, slots=True)
class Mutation:
    """What to break, and where that must be noticed. count: how often the text occurs; 0: once or more."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    count: int = 1

    def apply(self, package: Path) -> None:
        """Break the copy; fails when the text to break is not there any more."""
        path = package / self.file
        text = path.read_text(encoding="utf-8")
        found = text.count(self.old)
        if found == 0 or (self.count and found != self.count):
            message = f"{self.name}: expected {self.count or 'some'} of {self.old!r} in {self.file}, found {found}"
            raise SystemExit(message)
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


MUTATIONS: Final = (
    Mutation(
        "a stream repeats what was told",
        "model/event.py",
        "if happened is not None and fence >= position.step:",
        "if happened is not None:",
        (f"{STREAMED}a_life_is_told_from_the_rows_alone_and_from_every_event_on",),
    ),
    Mutation(
        "acts have no place in the life of their job",
        CONTROL,
        "jsonb_build_object('fence', j.fence, 'seq', j.seq)",
        "jsonb_build_object('fence', 0, 'seq', 0)",
        (f"{STREAMED}a_life_is_told_from_the_rows_alone_and_from_every_event_on",),
    ),
    Mutation(
        "the feed tells jobs that are out of sight",
        "store/sql/stream.sql",
        "WHERE s.sees_all OR j.tenant = s.tenant OR",
        "WHERE true OR s.sees_all OR j.tenant = s.tenant OR",
        ("tests/desk/test_stream_feed.py::test_only_jobs_in_sight_are_told",),
    ),
    Mutation(
        "a stream that was asked for just before the end holds it up",
        "desk/lookouts.py",
        "if self._closed:",
        "if False:",
        ("tests/api/test_streams.py::test_streams_end_at_once_when_they_are_closed",),
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
        CONTROL,
        "AND NOT (j.approval & 4 <> 0 AND coalesce(r.created_by = j.submitted_by, true))",
        "",
        ("tests/desk/test_approvals.py::test_a_rule_is_the_approval_of_its_author_and_of_one_person",),
    ),
    Mutation(
        "a bulk order needs no preview of its own",
        "desk/operations.py",
        "if filter_hash != seen.filter_hash:",
        "if False:",
        ("tests/desk/test_bulk.py::test_what_was_not_previewed_is_not_ordered",),
    ),
    Mutation(
        "a window with few ends walks the whole history",
        "store/migrations/0006_operators.up.sql",
        """AND j.finished_at > (
  SELECT clock_timestamp() - coalesce(nullif(current_setting('rowlock.within', true), ''), '1 hour')::interval)""",
        "AND j.finished_at > clock_timestamp() - "
        "coalesce(nullif(current_setting('rowlock.within', true), ''), '1 hour')::interval",
        ("tests/desk/test_plans.py::test_statistics_read_no_more_than_their_caps",),
    ),
    Mutation(
        "a key that destroys does not ask",
        "cli/top.py",
        "        elif not question:\n",
        "        elif give:\n",
        ("tests/cli/test_top.py::test_destructive_keys_ask_first_and_anything_but_y_does_nothing",),
    ),
    Mutation(
        "the terminal stays taken after a crash",
        "cli/terminal.py",
        "            loop.remove_signal_handler(signal.SIGTSTP)\n            self._leave()\n",
        "            loop.remove_signal_handler(signal.SIGTSTP)\n",
        ("tests/cli/test_top.py::test_the_terminal_is_restored_after_a_crash",),
    ),
    Mutation(
        "suspects run among the others",
        "flow/crew.py",
        'if row["losses"] and self._children.isolates(handler):',
        "if False:",
        (f"{EXECUTORS}a_suspect_runs_alone_in_a_child_and_innocents_complete",),
    ),
    Mutation(
        "a job that kills its process is never quarantined",
        "flow/verdict.py",
        "if deaths >= max_deaths:",
        "if deaths > 100:",
        (f"{EXECUTORS}a_job_that_kills_its_process_is_quarantined_alone",),
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
        "WHERE j.id = :id::bigint AND j.fence = :fence::integer AND j.finished_at IS NULL FOR SHARE),",
        "WHERE j.id = :id::bigint OR j.fence = :fence::integer FOR SHARE),",
        ("tests/flow/test_progress.py::test_a_checkpoint_in_a_transaction_needs_the_claim_and_the_transaction",),
    ),
    Mutation(
        "a job that reports is given up all the same",
        UPKEEP,
        "greatest(j.claimed_at, r.reported_at) < clock_timestamp()",
        "j.claimed_at < clock_timestamp()",
        (f"{OF_DUTIES}a_job_without_progress_is_lost_though_its_worker_lives",),
    ),
    Mutation(
        "the last news of an attempt are overtaken by its outcome",
        "flow/voice.py",
        "if self._report is not None and (self._report.dirty or self._report.writing):",
        "if False:",
        ("tests/flow/test_logs.py::test_threads_and_handlers_without_a_context_are_heard_too",),
    ),
    Mutation(
        "a stuck handler gives its slot away",
        "flow/crew.py",
        'self._in_use[attempt.row["lane"]] += 1\n        self._stuck',
        "self._stuck",
        (f"{EXECUTORS}a_cancel[thread.spins]",),
    ),
    Mutation(
        "a child that does not stop is not killed",
        "flow/processes.py",
        "                    self.kill()\n                    kill_at = None\n",
        "                    kill_at = None\n",
        (f"{EXECUTORS}a_cancel[process.deaf]",),
    ),
    Mutation(
        "memory is not watched",
        "flow/processes.py",
        "if kind.memory else None",
        "if False else None",
        (f"{EXECUTORS}a_job_that_eats_memory_fails_and_nobody_else[hog.slow-its limit is 190.7 MiB]",),
    ),
    Mutation(
        "memory is not limited",
        "flow/child.py",
        "    elif memory is not None:\n",
        "    elif False:\n",
        (f"{EXECUTORS}a_job_that_eats_memory_fails_and_nobody_else[hog.fast-]",),
    ),
    Mutation(
        "a shared loss counts at once",
        UPKEEP,
        "CASE WHEN k.isolates THEN 5 ELSE 1 END",
        "1",
        (f"{OF_DUTIES}losses_of_a_kind_that_can_be_isolated_do_not_quarantine_it",),
    ),
    Mutation(
        "complete without the fence",
        FINISH,
        "j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL\n\n",
        "j.id = d.id AND j.finished_at IS NULL\n\n",
        (STALE,),
    ),
    Mutation(
        "complete names the state (wrong index)",
        FINISH,
        "j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL\n\n",
        "j.id = d.id AND j.fence = d.fence AND j.state = 'running'\n\n",
        (f"{OF_PLANS}a_completion_of_ten_goes_by_the_primary_key",),
    ),
    Mutation(
        "no fence bump on requeue",
        FINISH,
        "fence = j.fence + 1, seq = j.seq + 1, gate_place = 0,\n",
        "fence = j.fence, seq = j.seq + 1, gate_place = 0,\n",
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
        "lagged look off",
        CURSORS,
        "low[pair] - LAG if active",
        "low[pair] if active",
        (f"{AT_CURSORS}a_late_commit_is_found_by_the_lagged_look_within_a_second",),
    ),
    Mutation(
        "low_water ignored",
        CURSORS,
        "self._low[pair] = min(low_water, self._low[pair])",
        "low_water",
        (f"{AT_CURSORS}a_commit_later_than_the_lag_is_found_by_the_sweeps_low_water",),
    ),
    Mutation(
        "wake-ups lower no cursor",
        CURSORS,
        "self._low[pair] = min(run_after, self._low.get(pair, BEGINNING))",
        "self._low.setdefault(pair, BEGINNING)",
        (f"{AT_CURSORS}a_late_commit_is_found_by_the_wake_up_that_names_it",),
    ),
    Mutation(
        "a second producer of a moment tells nobody",
        "flow/producer.py",
        "if not settled:",
        "if settled is None:",
        ("tests/flow/test_waking.py::test_the_first_job_after_a_pause_carries_its_wake_up",),
    ),
    Mutation(
        "crowded lanes forget those that were left out",
        CURSORS,
        "self.more = 0 < asked <= got or bool(self._waiting)",
        "self.more = 0 < asked <= got",
        (f"{AT_CURSORS}crowded_lanes_take_turns_and_a_lane_that_was_left_out_is_asked_at_once",),
    ),
    Mutation(
        "a wake-up during a claim is undone",
        CURSORS,
        "            if pair not in self._told:\n    ",
        "            if pair:\n    ",
        (f"{AT_CURSORS}a_job_that_commits_while_an_empty_claim_is_under_way_is_not_skipped",),
    ),
    Mutation(
        "parked jobs look like an empty queue",
        CURSORS,
        'taken = Counter(row["lane"] for row in answer.rows)',
        'taken = Counter(row["lane"] for row in answer.rows if not row["parked"])',
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
        "a gate is judged before it is locked",
        GATES,
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
        GATES,
        "      v_free := 0;  ",
        "      NULL;  ",
        (f"{OF_GATES}a_newcomer_may_take_a_free_place_beside_the_parked_unless_fifo",),
    ),
    Mutation(
        "rescue keeps the owner on the job",
        FINISH,
        "claimed_by = CASE WHEN l.revoked THEN NULL ELSE j.claimed_by END",
        "claimed_by = j.claimed_by",
        (STALE,),
    ),
    Mutation(
        "settled says always applied",
        FINISH,
        "SELECT d.id, (j.fence = d.fence + 1",
        "SELECT d.id, true OR (j.fence = d.fence + 1",
        (STALE,),
    ),
    Mutation(
        "settled says never applied",
        FINISH,
        "SELECT d.id, (j.fence = d.fence + 1 AND j.claimed_by = :worker::bigint)",
        "SELECT d.id, (j.fence = d.fence + 9 AND j.claimed_by = :worker::bigint)",
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
        "gate_place = CASE WHEN o.approval = 2 THEN 0 ELSE o.gate_place END",
        "gate_place = o.gate_place",
        (f"{OF_GATES}a_parked_job_whose_approval_became_void_is_not_promoted_past_the_approver",),
    ),
    Mutation(
        "rescue judges right after an outage",
        UPKEEP,
        "    AND coalesce(l.stale_after, interval '60 s') <= :watched::interval\n",
        "    AND :watched::interval IS NOT NULL\n",
        (f"{OF_DUTIES}nobody_is_judged_before_this_process_has_watched_for_the_stale_timeout",),
    ),
    Mutation(
        "every caretaker wins every round",
        UPKEEP,
        "WHERE d.name = :name::text\n  AND d.last_run_at < clock_timestamp()",
        "WHERE d.name = :name::text\n  OR d.last_run_at > clock_timestamp()",
        (f"{OF_DUTIES}two_caretakers_share_the_rounds",),
    ),
    Mutation(
        "a wider retention rule takes what a narrower one keeps",
        UPKEEP,
        "AND NOT EXISTS (SELECT 1 FROM {schema}.retention s\n",
        "AND NOT EXISTS (SELECT 1 FROM {schema}.retention s JOIN {schema}.jobs ON false\n",
        (f"{OF_RETENTION}the_most_specific_rule_decides",),
    ),
    Mutation(
        "every job of a blocked loop is blamed",
        "flow/worker.py",
        "suspects = self._crew.on_loop() if claim is None else [claim]",
        "suspects = self._crew.on_loop() if claim or True else [claim]",
        (f"{OF_SUPERVISION}a_blocked_worker_blames_one_gives_back_the_rest_and_lets_its_heir_take_over",),
    ),
    Mutation(
        "neighbours of a blocked loop are judged like the culprit",
        UPKEEP,
        "SELECT x.id, x.fence, CASE WHEN b.id IS NULL THEN 'queued' ELSE x.state END AS state,",
        "SELECT x.id, x.fence, x.state,",
        (f"{OF_SUPERVISION}unblock_gives_neighbours_back_whatever_their_kinds_policy",),
    ),
    Mutation(
        "the dead wait for their silence",
        "flow/supervise/supervisor.py",
        "            self._dead[hand.worker] = _RESCUES\n",
        "            pass\n",
        (f"{SUPERVISED}a_killed_process_is_replaced_and_its_jobs_rescued_at_once",),
    ),
    Mutation(
        "a supervisor vouches for a stopped process",
        "flow/supervise/supervisor.py",
        "if hand.running and hand.worker and not hand.stopped]",
        "if hand.running and hand.worker]",
        (f"{SUPERVISED}a_stopped_process_is_neither_vouched_for_nor_killed",),
    ),
    Mutation(
        "a process may outlive its killed supervisor",
        "flow/system.py",
        "        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)\n",
        "        pass\n",
        (f"{SUPERVISED}no_process_outlives_a_killed_supervisor",),
    ),
    Mutation(
        "a principal sees every job",
        "store/sql/history.sql",
        "(:sees_all::boolean OR j.tenant = :tenant::text",
        "(true OR j.tenant = :tenant::text",
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
        "an order does not look whether its job is in sight",
        "desk/sight.py",
        "if not self._guard.sees_all:",
        "if self._guard.read_only:",
        (f"{OF_ACCESS}another_tenants_job_is_not_there",),
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
        "any page gives orders with somebody's cookie",
        "api/auth/sessions.py",
        "            refuse_cross_site(connection)\n        return principal",
        "            pass\n        return principal",
        ("tests/api/test_auth.py::test_orders_with_a_cookie_come_from_our_own_pages",),
    ),
    Mutation(
        "a repeated request makes another job",
        "store/sql/requests.sql",
        "AND k.expires_at > now()",
        "AND false",
        ("tests/api/test_jobs.py::test_the_same_idempotency_key_makes_one_job",),
    ),
    Mutation(
        "a request with another body passes for a repeated one",
        "api/submit.py",
        "        if len(used) == 1:\n",
        "        if not used:\n",
        ("tests/api/test_jobs.py::test_the_same_idempotency_key_makes_one_job",),
    ),
    Mutation(
        "without authentication the whole network is served",
        "api/local.py",
        "    if client is not None and not is_loopback(client.host):\n        return False\n",
        "",
        ("tests/api/test_door.py::test_without_authentication_only_this_machine_is_served",),
    ),
)


def run(tests: tuple[str, ...], source: Path | None, *options: str) -> tuple[int, str]:
    """Run tests against a copy of src (None: the real one); returns pytest's exit code and what it said."""
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--timeout=60", *options, *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own tests
    return done.returncode, done.stdout


def attempt(mutation: Mutation) -> str:
    """Say which test noticed the mutation; empty: none did."""
    with tempfile.TemporaryDirectory(prefix="rowlock-mutation-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        mutation.apply(source / "rowlock")
        code, said = run(mutation.tests, source, "-x")
    failed = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR tests"))]
    if code == RED and failed:
        return failed[0].partition(" ")[2].partition(" - ")[0].rpartition("::")[2]
    if code == 0:
        return ""
    message = f"{mutation.name}: pytest ended with {code}\n{said[-3000:]}"
    raise SystemExit(message)


def main(words: list[str]) -> int:
    """Try the mutations; 0: each was noticed."""
    chosen = [m for m in MUTATIONS if not words or any(word in m.name for word in words)]
    code, said = run(tuple(dict.fromkeys(test for mutation in chosen for test in mutation.tests)), None, "-n", "2")
    if code != 0:
        sys.stdout.write(f"red before anything was broken:\n{said[-3000:]}\n")
        return 1
    survivors = 0
    for mutation in chosen:
        began = time.monotonic()
        by = attempt(mutation)
        survivors += not by
        verdict = f"noticed by {by}" if by else "SURVIVED"
        sys.stdout.write(f"{mutation.name:<55} {time.monotonic() - began:5.1f} s  {verdict}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - survivors} of {len(chosen)} mutations were noticed\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
