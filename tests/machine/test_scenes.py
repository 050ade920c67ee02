"""Scenes: short, fixed sequences of the machine's rules, so that what its oracle must notice does not depend on chance.

The numbers of a step choose as they do in the random machines; tests/machine/job_rules.py says what each means. A scene
ends by asserting that it got where it was to go: otherwise a changed rule could leave it with nothing to judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.databases import fresh
from tests.machine.claims import ClaimSome
from tests.machine.composed_rules import Arrangements
from tests.machine.connections import MachineDatabase
from tests.machine.job_rules import step_of

from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from tests.machine.snapshot import Job


class Scripted(Arrangements):
    """A machine whose steps a scene chooses."""

    step = step_of({"enqueue": 1})

    def newest(self, *states: State) -> Job:
        """The newest job, or the newest in one of these states."""
        job = self.job(0, *states)
        assert job is not None
        return job

    def states(self) -> list[State]:
        """Of all jobs, the oldest first."""
        return [job.state for job in self.snapshot.jobs.values()]


@pytest.fixture(scope="module")
def machine_database(
    administrator: psycopg.Connection[Any], server_url: str, template: str
) -> Iterator[MachineDatabase]:
    """One for all scenes: each begins with empty tables, as the random examples do."""
    with fresh(administrator, server_url, template) as url, MachineDatabase.at(url) as db:
        yield db


@pytest.fixture
def machine(machine_database: MachineDatabase) -> Iterator[Scripted]:
    """A machine that is repaired at the end and judged once more, as after every random example."""
    machine_database.done.clear()
    made = Scripted(machine_database)
    yield made
    made.teardown()


# --- claims and the owner's writes -----------------------------------------------------------------------------------


def test_a_stale_claim_does_not_end_the_next_attempt(machine: Scripted) -> None:
    machine.enqueue(0, 2, 0)
    machine.claim_one(0, 0, 0)
    machine.give_back(0, 0, 0)
    machine.claim_one(0, 0, 0)
    machine.finish(1, 9, 0)
    assert machine.newest().state is State.RUNNING
    assert machine.newest().attempt == 2


def test_a_stale_claim_saves_no_checkpoint(machine: Scripted) -> None:
    machine.enqueue(0, 2, 0)
    machine.claim_one(0, 0, 0)
    machine.again(0, 1, 1)
    assert machine.db.done["Save"] == 1
    assert machine.newest().attempt == 2


def test_a_stale_claim_commits_no_guarded_rows(machine: Scripted) -> None:
    machine.enqueue(0, 2, 0)
    machine.claim_one(0, 0, 0)
    machine.again(0, 0, 1)
    assert machine.db.done["Guard"] == 1
    assert machine.newest().attempt == 2


def test_a_stale_claim_pauses_no_rate(machine: Scripted) -> None:
    machine.enqueue_metered(0, 0, 0)
    machine.claim_one(0, 0, 0)
    machine.give_back(0, 0, 0)
    machine.pause_rate(1, 0, 6)
    assert machine.db.done["Heed"] == 1


def test_a_cancel_that_was_asked_for_ends_the_job_instead_of_another_attempt_and_no_hook_tells(
    machine: Scripted,
) -> None:
    machine.enqueue(0, 2, 0)
    machine.claim_one(0, 0, 0)
    machine.again(0, 0, 0)
    assert machine.db.done["GiveBack"] == 1
    assert machine.states() == [State.CANCELLED]


def test_an_attempt_counts_its_own_items_only(machine: Scripted) -> None:
    machine.enqueue(0, 2, 0)
    machine.claim_one(0, 0, 0)
    machine.again(0, 1, 2)
    assert machine.db.done["Report"] == 2


@pytest.mark.parametrize("order", [1, 3])
def test_an_attempt_goes_on_from_its_newest_checkpoint(machine: Scripted, order: int) -> None:
    machine.enqueue(0, 2, 0)
    machine.claim_one(0, 0, 0)
    machine.save(0, 0, order)
    assert machine.db.done["Resume"] == 1


def test_a_scheduled_job_is_not_claimed_before_its_time(machine: Scripted) -> None:
    machine.enqueue_with_times(1, 0, 0)
    machine.claim_one(0, 0, 0)
    assert machine.db.done["ClaimIds"] == 1
    assert machine.newest().state is State.QUEUED


def test_a_pair_is_claimed_from_its_head(machine: Scripted) -> None:
    machine.enqueue(0, 0, 0)
    machine.enqueue(0, 0, 0)
    machine.claim_some(0, 0, 8)
    assert machine.states() == [State.RUNNING, State.QUEUED]


def test_of_two_kinds_the_older_job_is_claimed_first(machine: Scripted) -> None:
    machine.enqueue(0, 0, 0)
    machine.enqueue(1, 0, 0)
    machine.claim_some(0, 0, 0)
    assert machine.states() == [State.RUNNING, State.QUEUED]


def test_a_released_step_lets_a_more_urgent_job_pass(machine: Scripted) -> None:
    machine.enqueue(0, 0, 0)
    machine.enqueue(0, 1, 0)
    machine.claim_released(1, 0, 2)
    assert machine.db.done["ClaimReleased"] == 1
    assert machine.states() == [State.QUEUED, State.QUEUED]


def test_a_cancel_that_waits_for_a_claim_does_not_end_the_job_under_it(machine: Scripted) -> None:
    machine.enqueue(0, 0, 0)
    machine.both(0, 0, 1)
    assert machine.db.done["waits for the other"] == 1
    assert machine.newest().state is State.RUNNING


# --- lost workers, and time that is over -----------------------------------------------------------------------------


def test_a_rescue_moves_the_fence_and_refunds_the_attempt(machine: Scripted) -> None:
    machine.enqueue(0, 2, 0)
    machine.claim_one(0, 0, 0)
    machine.rescue(1, 0, 0)
    assert machine.newest().losses == 1


def test_a_lost_job_of_a_kind_that_is_held_waits_for_a_person(machine: Scripted) -> None:
    machine.enqueue(1, 0, 0)
    machine.claim_one(0, 0, 0)
    machine.rescue(1, 0, 0)
    assert machine.newest().state is State.PENDING


def test_every_end_is_counted_once(machine: Scripted) -> None:
    for state in (0, 2, 3):
        machine.enqueue(0, 2, 0)
        machine.claim_one(0, 0, 0)
        machine.finish(0, 0, state)
    machine.enqueue(0, 2, 0)
    machine.cancel(0, 0, 0)
    ended = [State.COMPLETED, State.COMPLETED_WITH_ERRORS, State.FAILED, State.CANCELLED]
    assert machine.states() == ended
    machine.db.run(machine.ends.check(machine.db.observer))


def test_a_job_that_expired_is_told_by_its_hook(machine: Scripted) -> None:
    machine.enqueue_with_times(0, 3, 0)
    machine.lapse(1, 0, 0)
    assert machine.states() == [State.EXPIRED, State.QUEUED]


def test_retention_keeps_what_is_younger_than_its_rule(machine: Scripted) -> None:
    machine.enqueue(0, 0, 0)
    machine.claim_one(0, 0, 0)
    machine.finish(0, 0, 0)
    machine.prune(0, 0, 0)
    assert machine.db.done["Prune"] == 1
    assert machine.newest().state is State.COMPLETED


def test_a_sweep_publishes_the_head_of_its_pair(machine: Scripted) -> None:
    machine.enqueue(0, 0, 0)
    machine.upkeep(5, 0, 0)
    assert machine.db.done["Sweep"] == 1


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_job_that_comes_back_to_its_waiting_twin_is_superseded(machine: Scripted) -> None:
    machine.pile_up(0, 0, 0)
    machine.enqueue_keyed(1, 0, 0)
    machine.give_back(0, 0, 0)
    assert machine.states() == [State.CANCELLED, State.QUEUED]


def test_of_two_jobs_of_a_key_that_come_back_at_once_the_newer_one_waits(machine: Scripted) -> None:
    machine.pile_up(0, 0, 0)
    machine.pile_up(0, 0, 0)
    machine.disown(0, 0, 0)
    assert machine.states() == [State.CANCELLED, State.QUEUED]


def test_an_idempotency_key_stands_for_the_job_that_the_unique_key_led_to(machine: Scripted) -> None:
    machine.enqueue_both(0, 0, 0)
    machine.enqueue_both(0, 0, 2)
    assert len(machine.snapshot.keys) == 2
    assert len(machine.snapshot.jobs) == 1


def test_an_idempotency_key_follows_a_job_that_was_replaced(machine: Scripted) -> None:
    machine.enqueue_both(0, 0, 0)
    machine.enqueue_both(0, 1, 2)
    assert len(machine.snapshot.keys) == 2
    assert machine.newest().args == {"n": 1}


@pytest.mark.parametrize("keys", [0, 1])
def test_of_a_key_that_a_bulk_says_twice_the_first_counts(machine: Scripted, keys: int) -> None:
    machine.enqueue_many(0, 1, keys)
    assert len(machine.snapshot.jobs) == 2


def test_a_bulk_that_is_rejected_leaves_nothing(machine: Scripted) -> None:
    machine.enqueue_keyed(0, 0, 0)
    machine.enqueue_many(2, 0, 1)
    assert machine.db.done["EnqueueMany"] == 1
    assert len(machine.snapshot.jobs) == 1


def test_a_replaced_job_is_found_by_its_new_references_only(machine: Scripted) -> None:
    machine.enqueue_keyed(1, 1, 0)
    machine.enqueue_keyed(1, 4, 1)
    assert machine.newest().refs == {"p": 0}
    assert len(machine.snapshot.jobs) == 1


def test_an_edit_that_changes_nothing_leaves_the_job_as_it_is(machine: Scripted) -> None:
    machine.enqueue(0, 0, 0)
    machine.edit(0, 0, 0)
    assert machine.db.done["Edit"] == 1
    assert machine.newest().seq == 0


# --- approval --------------------------------------------------------------------------------------------------------


def test_other_arguments_void_an_approval(machine: Scripted) -> None:
    machine.enqueue_for_approval(0, 0, 0)
    machine.answer(0, 0, 1)
    assert machine.newest().state is State.QUEUED
    machine.edit(0, 1, 1)
    assert machine.newest().state is State.PENDING


def test_a_person_who_has_approved_does_not_approve_again_by_a_rule(machine: Scripted) -> None:
    machine.enqueue_for_approval(2, 0, 0)
    machine.answer(0, 0, 1)
    machine.approve_ahead(0, 0, 3)
    machine.ask_rules(0, 2, 0)
    assert machine.newest().state is State.PENDING
    assert machine.newest().approvers == ["bob"]


def test_a_rule_does_not_approve_its_authors_own_job(machine: Scripted) -> None:
    machine.approve_ahead(0, 2, 3)
    machine.enqueue_for_approval(0, 0, 0)
    assert machine.newest().state is State.PENDING


def test_a_rule_does_not_approve_a_job_that_its_author_has_edited(machine: Scripted) -> None:
    machine.enqueue_for_approval(0, 0, 0)
    machine.edit(0, 0, 1)
    machine.approve_ahead(0, 0, 3)
    machine.ask_rules(0, 2, 0)
    assert machine.newest().state is State.PENDING


@pytest.mark.parametrize("kind", [1, 2], ids=["four eyes", "several approvers"])
def test_a_rule_without_an_author_does_not_count_where_it_matters_who_approves(machine: Scripted, kind: int) -> None:
    machine.approve_ahead(0, 3, 3)
    machine.enqueue_for_approval(kind, 0, 0)
    assert machine.newest().approvers is None


# --- gates and rates -------------------------------------------------------------------------------------------------


def test_a_gate_lets_in_as_many_as_it_has_places_and_the_others_in_turn(machine: Scripted) -> None:
    for _ in range(3):
        machine.enqueue_limited(0, 1, 0)
    machine.claim_some(0, 3, 0)
    assert machine.states() == [State.RUNNING, State.BLOCKED, State.BLOCKED]
    machine.finish(0, 0, 0)
    assert machine.states() == [State.COMPLETED, State.QUEUED, State.BLOCKED]


def test_a_job_that_is_given_back_leaves_its_place(machine: Scripted) -> None:
    machine.enqueue_limited(0, 1, 0)
    machine.enqueue_limited(0, 1, 0)
    machine.claim_some(0, 3, 0)
    machine.give_back(0, 0, 0)
    assert machine.states() == [State.QUEUED, State.QUEUED]


def test_a_bucket_gives_its_last_token_and_never_holds_more_than_it_can(machine: Scripted) -> None:
    machine.advance(4, 7, 0)
    machine.burst(0, 0, 0)
    machine.burst(0, 0, 0)
    assert machine.states() == [State.RUNNING] * 3 + [State.QUEUED] * 3


def test_a_paused_rate_lets_nothing_start(machine: Scripted) -> None:
    machine.pause_rate(0, 1, 0)
    machine.enqueue_metered(0, 0, 0)
    machine.claim_one(0, 0, 0)
    assert machine.newest().state is State.QUEUED


# --- fair lanes ------------------------------------------------------------------------------------------------------


def test_a_backlog_of_one_tenant_does_not_keep_another_waiting(machine: Scripted) -> None:
    for share in (1, 1, 1, 4):
        machine.enqueue_shared(0, 0, share)
    machine.claim_fairly(0, 1, 1)
    assert machine.states() == [State.RUNNING, State.QUEUED, State.QUEUED, State.RUNNING]


def test_a_fair_lane_remembers_whose_turn_it_was(machine: Scripted) -> None:
    for share in (1, 1, 4):
        machine.enqueue_shared(0, 0, share)
    machine.claim_fairly(0, 0, 1)
    machine.claim_fairly(0, 0, 1)
    assert machine.states() == [State.RUNNING, State.QUEUED, State.RUNNING]


def test_a_tenant_that_is_alone_gets_every_slot(machine: Scripted) -> None:
    for _ in range(3):
        machine.enqueue_shared(0, 0, 1)
    machine.claim_fairly(0, 3, 0)
    assert machine.states() == [State.RUNNING] * 3


def test_a_job_that_rises_gets_a_new_position(machine: Scripted) -> None:
    machine.enqueue_shared(0, 0, 0)
    machine.age(1, 2, 0)
    assert machine.newest().priority > 0


# --- workflows -------------------------------------------------------------------------------------------------------


def test_a_step_behind_one_that_failed_ends_and_both_may_be_retried(machine: Scripted) -> None:
    machine.start(0, 0, 0)
    machine.claim_one(0, 0, 0)
    machine.finish(0, 0, 3)
    assert machine.states() == [State.FAILED, State.CANCELLED]
    machine.retry_step(1, 0, 0)
    machine.claim_one(0, 0, 0)
    machine.finish(0, 0, 0)
    machine.claim_one(0, 0, 0)
    machine.finish(0, 0, 0)
    assert machine.states() == [State.COMPLETED, State.COMPLETED]


def test_a_workflow_whose_key_is_taken_is_the_one_that_has_it(machine: Scripted) -> None:
    machine.start(8, 0, 0)
    machine.start(8, 0, 0)
    assert len(machine.snapshot.flows) == 1


# --- schedules -------------------------------------------------------------------------------------------------------


def test_a_schedule_is_not_fired_by_what_was_read_before_it_was_paused(machine: Scripted) -> None:
    machine.schedule(0, 0, 0)
    machine.advance(1, 7, 0)
    machine.look_around(0, 0, 0)
    machine.set_schedule(0, 0, 4)
    machine.fire(0, 0, 0)
    assert machine.db.done["Fire"] == 1
    assert machine.states() == []


def test_of_two_schedulers_one_takes_the_slots(machine: Scripted) -> None:
    machine.schedule(0, 0, 0)
    machine.advance(1, 7, 0)
    machine.look_around(0, 0, 0)
    machine.fire(0, 0, 0)
    machine.fire(0, 0, 0)
    assert machine.db.done["Fire"] == 2
    assert machine.states() == [State.QUEUED]


def test_a_schedule_that_skips_does_not_overlap_its_run(machine: Scripted) -> None:
    machine.schedule(0, 1, 0)
    for _ in range(2):
        machine.advance(1, 7, 0)
        machine.fire(0, 1, 0)
    assert machine.db.done["Fire"] == 2
    assert machine.states() == [State.QUEUED]


# --- locks -----------------------------------------------------------------------------------------------------------


def test_a_newcomer_does_not_pass_those_who_wait_for_a_lock(machine: Scripted) -> None:
    machine.lock(0, 0, 0)
    machine.lock(1, 0, 0)
    machine.lock(0, 0, 1)
    assert machine.db.done["ReleaseLock"] == 1
    assert [held for *_, held in machine.snapshot.locks] == [False] * 2


def test_a_lock_goes_to_the_one_that_has_waited_longest(machine: Scripted) -> None:
    machine.lock(0, 0, 0)
    machine.lock(1, 0, 0)
    machine.lock(0, 0, 3)
    machine.lock(0, 0, 1)
    assert machine.db.done["ReleaseLock"] == 1
    assert [held for *_, held in machine.snapshot.locks] == [False] * 3


def test_a_process_that_waits_for_a_lock_is_not_taken_for_gone(machine: Scripted) -> None:
    machine.lock(0, 0, 0)
    machine.lock(1, 0, 0)
    machine.lose_locker(0, 0, 0)
    assert machine.db.done["PruneLocks"] == 1
    assert len(machine.snapshot.locks) == 2


# --- orders of principals --------------------------------------------------------------------------------------------

ANN, BOB, CAT, DAN, EVE, FAY = range(6)
"""Places in ASKERS."""
CANCEL, STOP, APPROVE, REJECT, RETRY, REPRIORITISE, EDIT, DELETE = range(8)
"""Places in ORDERS."""


def test_a_principal_without_a_tenant_orders_its_own_jobs_and_no_others(machine: Scripted) -> None:
    machine.enqueue_owned(0, ANN, 0)
    machine.enqueue_owned(0, BOB, 0)
    machine.enqueue_owned(0, ANN, 1)
    for job in range(3):
        machine.ask(job, ANN, CANCEL)
    assert machine.states() == [State.CANCELLED, State.QUEUED, State.QUEUED]


def test_a_principal_of_a_tenant_orders_the_jobs_of_that_tenant(machine: Scripted) -> None:
    for tenant in range(3):
        machine.enqueue_owned(0, ANN, tenant)
    for job in range(3):
        machine.ask(job, BOB, STOP)
    assert machine.states() == [State.QUEUED, State.CANCELLED, State.QUEUED]


def test_many_jobs_are_cancelled_only_where_the_principal_may(machine: Scripted) -> None:
    for tenant in range(3):
        machine.enqueue_owned(2, ANN, tenant)
        machine.enqueue_owned(1, ANN, tenant)
    machine.ask_many(0, FAY, 11)
    assert set(machine.states()) == {State.QUEUED}
    machine.ask_many(0, EVE, 11)
    machine.ask_many(2, EVE, 11)
    # The tenant's jobs of both kinds; of other tenants those in the lane that jobs:read_all names.
    assert machine.states() == [
        State.CANCELLED,
        State.QUEUED,
        State.CANCELLED,
        State.CANCELLED,
        State.CANCELLED,
        State.QUEUED,
    ]


@pytest.mark.parametrize("order", [CANCEL, EDIT])
def test_an_order_reaches_the_kinds_and_lanes_of_its_scope(machine: Scripted, order: int) -> None:
    for kind in range(3):
        machine.enqueue_owned(kind, CAT, 2)
    before = machine.snapshot.jobs
    for job in range(3):
        machine.ask(job, DAN, order)
        machine.ask(job, DAN + 6, order)
    changed = [i for i, job in machine.snapshot.jobs.items() if job != before[i]]
    assert changed == list(before)[: {CANCEL: 1, EDIT: 2}[order]]


def test_a_running_job_is_in_the_scope_of_the_lane_that_claimed_it(machine: Scripted) -> None:
    machine.enqueue_owned(0, CAT, 0)
    machine.perform(ClaimSome(machine.worker(0), 1, "capped"))
    assert machine.newest().lane == "capped"
    machine.ask(0, DAN, REPRIORITISE)
    machine.finish(0, 0, 0)
    machine.ask(0, DAN, RETRY)
    assert machine.newest().state is State.COMPLETED
    machine.ask(0, CAT, RETRY)
    assert machine.newest().state is State.QUEUED


def test_nobody_approves_their_own_job(machine: Scripted) -> None:
    machine.enqueue_owned(2, CAT, 6)
    machine.ask(0, CAT, APPROVE)
    assert machine.newest().state is State.PENDING
    machine.ask(0, DAN, APPROVE)
    assert machine.newest().state is State.QUEUED


def test_nobody_approves_the_arguments_that_they_wrote(machine: Scripted) -> None:
    machine.enqueue_owned(2, ANN, 8)
    machine.ask(0, CAT + 6, EDIT)
    assert machine.newest().args == {"n": 5}
    machine.ask(0, CAT, APPROVE)
    assert machine.newest().state is State.PENDING


def test_a_job_is_deleted_by_those_who_may(machine: Scripted) -> None:
    machine.enqueue_owned(1, ANN, 0)
    machine.ask(0, ANN, DELETE)
    machine.ask(0, ANN, CANCEL)
    for who in (BOB, EVE, FAY):
        machine.ask(0, who, DELETE)
    assert machine.states() == [State.CANCELLED]
    machine.ask(0, DAN, DELETE)
    assert machine.states() == []
    machine.ask(11, DAN, DELETE)
