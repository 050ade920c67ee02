"""Mutations that the scenarios of the torture must notice, with nothing but what handlers wrote down and the tables."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

FINISH: Final = "store/sql/finish.sql"
REWOUND: Final = "tests/flow/claim/test_lost_history.py::test_"
LOST_HISTORY: Final = f"{REWOUND}a_claim_of_the_lost_history_is_refused_while_another_worker_holds_its_namesake"
SCENARIO: Final = "tests/torture/test_nemesis.py::test_every_promise_is_kept"
DEPLOY: Final = ("tests/torture/test_deploy.py::test_newer_code_comes_and_goes_under_load",)
SOAK: Final = ("tests/torture/test_soak.py::test_a_soak_finds_who_leaks_and_nothing_else",)

MUTATIONS: Final = (
    Mutation(
        "scenario: an outcome is accepted under any fence",
        FINISH,
        "j.claimed_by = :worker::bigint AND j.id = d.id AND j.fence = d.fence AND j.finished_at IS NULL\n\n",
        "j.id = d.id AND j.finished_at IS NULL\n\n",
        (f"{SCENARIO}[zombie]",),
    ),
    # Either of fence and owner refuses the stopped worker; the machine notices a rescue that leaves the fence alone.
    Mutation(
        "scenario: a rescue leaves fence and owner as they are",
        FINISH,
        "      fence = j.fence + 1, seq = j.seq + 1, gate_place = 0, rate_turn = CASE WHEN l.outcome = 'limited'"
        " THEN true END,\n      claimed_by = l.owner\n",
        "      fence = j.fence + (l.outcome <> 'lost')::integer, seq = j.seq + 1, gate_place = 0, rate_turn = NULL,\n"
        "      claimed_by = CASE WHEN l.outcome = 'lost' THEN j.claimed_by ELSE l.owner END\n",
        (f"{SCENARIO}[zombie]",),
    ),
    Mutation(
        "scenario: an outcome counts as written before it is",
        "flow/finish/finisher.py",
        "                again = True\n                if isinstance(error, UNSERVED):",
        "                return FlushResult(batch)\n                if isinstance(error, UNSERVED):",
        (f"{SCENARIO}[restart]",),
    ),
    Mutation(
        "scenario: workers wait to be woken and never look",
        "flow/worker/claim_loop.py",
        "                async with asyncio.timeout(idle):\n",
        "                if True:\n",
        (f"{SCENARIO}[deaf]",),
    ),
    Mutation(
        "rewound: a completion does not say whose claim it carries",
        FINISH,
        "j.claimed_by = :worker::bigint AND j.id = d.id",
        "j.id = d.id",
        (f"{LOST_HISTORY}[complete]",),
    ),
    Mutation(
        "rewound: who gives a job back does not say whose claim it carries",
        FINISH,
        " AND (l.owner IS NULL OR j.claimed_by = l.owner)",
        "",
        (f"{LOST_HISTORY}[give back]",),
    ),
    Mutation(
        "rewound: an outcome of the lost history is written under the claim that was given out again",
        "flow/finish/finisher.py",
        "return any(write is void for void in self._void)",
        "return False",
        (f"{REWOUND}an_outcome_that_waits_is_dropped_when_its_claim_is_given_out_again",),
    ),
    Mutation(
        "rewound: a new connection raises no doubts",
        "flow/worker/heartbeat.py",
        "self._doubtful, self._pause = True, min(self._pause, _SOON)",
        "self._doubtful, self._pause = False, min(self._pause, _SOON)",
        (f"{REWOUND}what_a_worker_has_finished_and_the_server_forgot_is_run_again_soon",),
    ),
    Mutation(
        "deploy: an upgrade stands in line for its locks, and everybody behind it",
        "store/schema/migration_files.py",
        'LOCK_WAIT: Final = "200ms"',
        'LOCK_WAIT: Final = "30s"',
        DEPLOY,
    ),
    Mutation(
        "deploy: workers go on whatever the tables say",
        "flow/worker/registration.py",
        "        if since <= self._made_for:\n",
        "        if since <= self._made_for + 99:\n",
        ("tests/flow/worker/test_worker_stop.py::test_a_worker_leaves_tables_that_are_for_newer_code",),
    ),
    Mutation(
        "soak: retention removes steps of workflows only",
        "store/sql/upkeep.sql",
        "gone AS (DELETE FROM {schema}.jobs j USING old WHERE j.id = old.id RETURNING j.id, j.refs, j.tags),",
        "gone AS (DELETE FROM {schema}.jobs j USING old WHERE j.id = -old.id RETURNING j.id, j.refs, j.tags),",
        SOAK,
    ),
    Mutation(
        "soak: a connection that was lent is neither kept for the next caller nor closed",
        "store/driver/pool.py",
        "            self._pool.call_failed(self._connection, error)\n        self._pool.release(self._connection)",
        "            self._pool.call_failed(self._connection, error)\n"
        '        self._pool.__dict__.setdefault("lent", []).append(self._connection)\n'
        "        self._pool._release_slot()",
        SOAK,
    ),
)
