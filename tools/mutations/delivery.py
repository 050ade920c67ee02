"""Mutations of delivery: what keeps messages to carriers from being lost, repeated or sent too early."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

OUTBOX: Final = "delivery/outbox.py"
SQL: Final = "store/sql/delivery.sql"
OF_OUTBOX: Final = "tests/delivery/test_outbox.py::test_"
OF_RUNNER: Final = "tests/flow/worker/test_job_runner.py::test_"
_OF_EXPLAIN: Final = "tests/desk/explain/test_explain.py::test_"
_VERDICTS: Final = "tests/desk/explain/test_verdicts_come_true.py::test_"

MUTATIONS: Final = (
    Mutation(
        "a broker that hangs takes a thread with every call",
        "delivery/celery.py",
        "        if not self._free.acquire(blocking=False):\n",
        "        if False:\n",
        ("tests/delivery/test_celery.py::test_a_broker_that_hangs_keeps_few_threads_and_none_of_the_event_loops",),
    ),
    Mutation(
        "calls wait for ever for a Redis that never answered",
        "delivery/arq.py",
        "asyncio.wait_for(create_pool(replace(self.redis, conn_retries=0)), self._open_within)",
        "asyncio.wait_for(create_pool(replace(self.redis, conn_retries=0)), None)",
        ("tests/delivery/test_arq.py::test_a_redis_that_never_answered_is_asked_again_when_it_is_well",),
    ),
    Mutation(
        "a carrier of every job leaves webhooks in the table",
        "app.py",
        "return Outbox(self.database, self._routes, self._worker_handlers)",
        "return Outbox(self.database, self._routes, self.handlers)",
        (f"{OF_OUTBOX}a_carrier_of_every_job_brings_webhooks_too",),
    ),
    Mutation(
        "a process does not say which carriers bring its jobs",
        "flow/worker/registration.py",
        '"carriers": self._options.carriers,',
        '"carriers": None,',
        (f"{OF_OUTBOX}processes_behind_a_carrier_say_so_and_the_doctor_asks_for_no_worker",),
    ),
    Mutation(
        "the doctor asks for workers where a carrier brings the jobs",
        "desk/doctor_checks.py",
        "not _is_carried(name, served.get(name, ()), live)",
        "True",
        ("tests/desk/test_doctor_checks.py::test_a_lane_whose_jobs_a_carrier_brings_needs_no_worker",),
    ),
    Mutation(
        "explain believes a message about an earlier stay in the queue",
        "desk/explain/facts.py",
        'return early or bool(delivery["fence"] != self.job.fence or delivery["again_at"] <= self.now)',
        "return False",
        (f"{_OF_EXPLAIN}a_message_about_an_earlier_stay_or_that_is_too_old_stands_for_nothing",),
    ),
    Mutation(
        "explain speaks of a carrier when workers claim the kind",
        "desk/explain/facts.py",
        "        if None in named:\n            return None\n",
        "",
        (f"{_OF_EXPLAIN}a_job_that_was_told_of_goes_by_its_lane_once_workers_claim_its_kind",),
    ),
    Mutation(
        "explain speaks of messages before the limits that hold them back",
        "desk/explain/reasons.py",
        "    drained,\n    no_worker,\n",
        "    drained,\n    carried,\n    no_worker,\n",
        (f"{_VERDICTS}what_is_said_of_a_job_that_a_carrier_brings_comes_true[a lane at its cap]",),
    ),
    Mutation(
        "explain asks for a worker until the first message is sent",
        "desk/explain/facts.py",
        "        return min(filter(None, named), default=delivered_by)\n",
        "        return None if delivered_by is None else str(delivered_by)\n",
        (
            f"{_OF_EXPLAIN}a_job_that_no_carrier_was_told_of_yet_asks_for_no_worker",
            f"{_VERDICTS}what_is_said_of_a_job_that_a_carrier_brings_comes_true[a broker that is away]",
        ),
    ),
    Mutation(
        "explain says nothing of a job that its lane is about to give up",
        "desk/explain/silent_worker.py",
        "facts.now - since < limit / 2:",
        "facts.now - since < limit * 2:",
        (f"{_OF_EXPLAIN}a_running_job_that_reports_nothing_is_told_when_its_lane_gives_it_up",),
    ),
    Mutation(
        "a message stands for a job that was put off after it",
        SQL,
        "AND d.fence = j.fence AND d.delivered_at >= j.run_after AND d.again_at",
        "AND d.fence = j.fence AND d.again_at",
        (f"{OF_OUTBOX}a_message_for_a_job_that_was_put_off_does_not_stand_for_its_new_time",),
    ),
    Mutation(
        "every process that sees a job sends it",
        SQL,
        "    WHERE d.fence < excluded.fence OR d.again_at <= clock_timestamp()\n",
        "    WHERE true OR d.again_at <= clock_timestamp()\n",
        (f"{OF_OUTBOX}of_two_processes_that_reserve_a_job_at_the_same_moment_one_sends_it",),
    ),
    Mutation(
        "messages are repeated at one pace for ever",
        SQL,
        ":again::interval * 2 ^ least(d.sent - 1, 6)",
        ":again::interval",
        (f"{OF_OUTBOX}a_carrier_that_cannot_tell_is_told_again_after_a_while_and_ever_more_rarely",),
    ),
    Mutation(
        "every process looks whenever it likes",
        SQL,
        "WHERE NOT d.last_run_at BETWEEN clock_timestamp() - greatest(excluded.every,",
        "WHERE true OR d.last_run_at BETWEEN clock_timestamp() - greatest(excluded.every,",
        (f"{OF_OUTBOX}one_process_of_an_application_looks_at_a_time",),
    ),
    Mutation(
        "carriers are not asked for what they lost",
        OUTBOX,
        "        await self._find_lost(places)\n",
        "",
        (f"{OF_OUTBOX}a_lost_message_is_sent_again",),
    ),
    Mutation(
        "a lane with a cap gets every message at once",
        OUTBOX,
        "            if lane.enabled and lane.is_careful:\n",
        "            if False:\n",
        (f"{OF_OUTBOX}a_lane_with_a_cap_gets_as_many_messages_as_it_has_room",),
    ),
    Mutation(
        "a drained lane gets messages",
        OUTBOX,
        "            room[lane.name] = _MOST if lane.enabled else 0\n",
        "            room[lane.name] = _MOST\n",
        (f"{OF_OUTBOX}a_drained_lane_gets_no_messages",),
    ),
    Mutation(
        "a message that could not be sent counts as sent",
        OUTBOX,
        'fetch("undeliver", ids=numbers, after=timedelta(0), counts=False)\n',
        'fetch("undeliver", ids=[], after=timedelta(0), counts=False)\n',
        (f"{OF_OUTBOX}without_the_broker_the_enqueue_succeeds_and_the_message_follows",),
    ),
    Mutation(
        "a message that started nothing is the last one",
        "delivery/reception.py",
        "            await self._return(number, _REFUSED)\n",
        "",
        (f"{OF_OUTBOX}a_message_that_came_while_its_lane_was_drained_is_followed_by_another",),
    ),
    Mutation(
        "the enqueue of a carried job only notifies",
        "flow/enqueue/producer.py",
        "        if not waker.may_carry(job.job.kind) and waker.reserve_window():\n",
        "        if waker.reserve_window():\n",
        (f"{OF_OUTBOX}a_message_follows_the_commit_and_its_id_is_the_jobs",),
    ),
    Mutation(
        "workers claim what carriers bring",
        "flow/claim/claimer.py",
        "[kind for kind in kinds if not self._carried(kind, name)]",
        "list(kinds)",
        (f"{OF_OUTBOX}workers_leave_the_jobs_of_carriers_alone",),
    ),
    Mutation(
        "every job run by id starts a worker",
        "flow/worker/job_runner.py",
        "        if starting is None or (",
        "        if True or (",
        (f"{OF_RUNNER}jobs_run_by_id_share_one_worker_and_its_connections",),
    ),
    Mutation(
        "a cancelled caller leaves its job running",
        "flow/worker/worker.py",
        '            self._slots.stop_attempts(claim.job_id, "shutdown", claim.fence)\n',
        "",
        (f"{OF_RUNNER}a_caller_that_is_cancelled_returns_its_job",),
    ),
    Mutation(
        "an upkeep-only worker runs jobs",
        "flow/worker/worker.py",
        "self.stopped.is_set() or self.options.upkeep_only:\n",
        "self.stopped.is_set():\n",
        (f"{OF_RUNNER}an_upkeep_only_worker_runs_no_job_and_rescues_those_of_others",),
    ),
)
