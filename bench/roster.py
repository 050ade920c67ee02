"""Who is measured, with which settings, and what each of them does not do for a job.

Peers run with the settings their own documentation recommends for throughput, or with those a short sweep found better;
concurrency was chosen by that sweep. What a peer leaves out per job is said beside its figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Subject:
    """A measured system. slots: jobs at once per worker; backlog: jobs of a full drain."""

    name: str
    module: str
    """In bench/peers."""
    store: str
    requirements: tuple[str, ...] = ()
    """Empty: Rowlock's own environment has what it needs."""
    python: str | None = None
    """A newer Python than Rowlock's oldest, when the peer asks for one."""
    slots: int = 100
    latency_slots: int | None = None
    backlog: int = 20_000
    bulk: bool = True
    drains: bool = True
    picks_up: bool = True
    unfinished: str | None = None
    """A query for one row while a job is not durably finished; None: the last handler's start ends a drain."""
    settings: str = ""
    lacks: str = ""
    """What it does less per job than Rowlock does."""

    @property
    def is_peer(self) -> bool:
        """Whether it comes from somebody else."""
        return bool(self.requirements)


ROWLOCK: Final = Subject(
    "rowlock",
    "rowlock",
    "PostgreSQL",
    slots=500,
    latency_slots=100,
    backlog=50_000,
    # Through the indexes of what runs and what waits: millions of finished rows must not slow the watching.
    unfinished="(SELECT 1 FROM rowlock.jobs WHERE state = 'running' LIMIT 1) UNION ALL "
    "(SELECT 1 FROM rowlock.pairs p JOIN LATERAL (SELECT 1 FROM rowlock.jobs j WHERE j.state = 'queued' "
    "AND j.kind = p.kind AND j.priority = p.priority AND j.share = p.share AND j.run_after <= clock_timestamp() "
    "LIMIT 1) due ON true LIMIT 1)",
    settings="`rowlock worker`, one lane with 500 slots (100 for latency), uvloop, everything else as it comes: "
    "fencing, attempts, history, beats and upkeep on",
)
MINIMAL: Final = Subject(
    "minimal",
    "minimal",
    "PostgreSQL",
    slots=500,
    latency_slots=100,
    backlog=50_000,
    unfinished="SELECT 1 FROM jobs WHERE state IN (0, 1) LIMIT 1",
    settings="hand-written asyncpg worker, 500 slots (100 for latency), one task per job, fenced batches",
    lacks="a loop, not a product: no retries, beats, cancellation, events, lanes, rescue",
)
LIMIT: Final = Subject(
    "limit",
    "limit",
    "PostgreSQL",
    slots=500,
    backlog=50_000,
    picks_up=False,
    unfinished="SELECT 1 FROM jobs WHERE state IN (0, 1) LIMIT 1",
    settings="claim 500, finish 500, on one asyncpg connection; COPY for bulk",
    lacks="runs no handler; bulk returns no ids",
)

SUBJECTS: Final = (
    ROWLOCK,
    MINIMAL,
    LIMIT,
    Subject(
        "pgqueuer",
        "pgqueuer",
        "PostgreSQL",
        ("pgqueuer[asyncpg]", "asyncpg", "uvloop"),
        slots=1000,
        latency_slots=100,
        backlog=50_000,
        unfinished="SELECT 1 FROM pgqueuer LIMIT 1",
        settings="asyncpg pool 2–10, batch_size 1000 (100 for latency), durability durable",
        lacks="the job row is deleted, its log has no arguments or result; ends are not fenced",
    ),
    Subject(
        "procrastinate",
        "procrastinate",
        "PostgreSQL",
        ("procrastinate", "psycopg[binary,pool]", "uvloop"),
        slots=20,
        unfinished="SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing') LIMIT 1",
        settings="pool 4–20, concurrency 20, LISTEN on, delete_jobs never",
        lacks="ends are guarded by state, not by attempt",
    ),
    Subject(
        "chancy",
        "chancy",
        "PostgreSQL",
        ("chancy", "psycopg[binary,pool]", "uvloop"),
        slots=500,
        latency_slots=100,
        unfinished="SELECT 1 FROM chancy_jobs WHERE state IN ('pending', 'running', 'retrying') LIMIT 1",
        settings="async executor, concurrency 500 (100 for latency), eager polling, poll and flush 1 s",
        lacks="ends are written once a second: what a crash takes with it is run again",
    ),
    Subject(
        "oban",
        "oban",
        "PostgreSQL",
        ("oban", "psycopg[binary,pool]", "uvloop"),
        python="3.12",
        slots=200,
        latency_slots=100,
        unfinished="SELECT 1 FROM oban_jobs WHERE state NOT IN ('completed', 'cancelled', 'discarded') LIMIT 1",
        settings="free edition, Python 3.12, pool 1–10, limit 200 (100 for latency), stager 1 s",
        lacks="results are not kept",
    ),
    Subject(
        "absurd",
        "absurd",
        "PostgreSQL",
        ("absurd-sdk", "absurdctl", "psycopg[binary]", "uvloop"),
        slots=100,
        backlog=6_000,
        bulk=False,
        unfinished="SELECT 1 FROM absurd.t_q WHERE state NOT IN ('completed', 'failed', 'cancelled') LIMIT 1",
        settings="concurrency and batch 100, one connection, poll 0.25 s",
        lacks="no LISTEN; no bulk call",
    ),
    Subject(
        "saq",
        "saq",
        "PostgreSQL",
        ("saq[postgres]", "psycopg[binary,pool]", "uvloop"),
        slots=50,
        backlog=5_000,
        bulk=False,
        unfinished="SELECT 1 FROM saq_jobs WHERE status IN ('queued', 'active') LIMIT 1",
        settings="pool 4–20, concurrency 50, LISTEN, jobs kept 600 s",
        lacks="ends are not fenced; no bulk call",
    ),
    Subject(
        "dbos",
        "dbos",
        "PostgreSQL",
        ("dbos", "uvloop"),
        slots=1000,
        backlog=5_000,
        bulk=False,
        unfinished="SELECT 1 FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED') LIMIT 1",
        settings="worker_concurrency 1000, poll 0.05 s (default 1 s), pool 20",
        lacks="no LISTEN; no bulk call. Does more: every step is durable",
    ),
    Subject(
        "taskiq-pg",
        "taskiq_pg",
        "PostgreSQL",
        ("taskiq==0.11.20", "taskiq-pg==0.2.0", "asyncpg", "uvloop"),
        slots=100,
        bulk=False,
        drains=False,
        settings="max-async-tasks 100, one worker process, no result backend; the taskiq its broker imports with",
        lacks="no claim: what is enqueued while no worker listens stays, two workers run it twice; no history",
    ),
    Subject(
        "awa",
        "awa",
        "PostgreSQL",
        ("awa-pg",),
        slots=200,
        latency_slots=100,
        backlog=20_000,
        settings="Rust core, queue storage, COPY for bulk, max_workers 200 (100 for latency)",
        lacks="the drain ends with the last handler's start, not with the last durable end",
    ),
    Subject(
        "arq",
        "arq",
        "Redis",
        ("arq", "uvloop"),
        slots=100,
        backlog=6_000,
        bulk=False,
        settings="max_jobs 100, poll 0.01 s (default 0.5 s), keep_result 0",
        lacks="Redis without fsync per job; no history; no bulk call",
    ),
    Subject(
        "celery",
        "celery",
        "Redis",
        ("celery[redis]",),
        slots=2,
        backlog=12_000,
        bulk=False,
        settings="prefork 2, prefetch 64, results ignored, acknowledged early, no gossip, mingle or heartbeat",
        lacks="Redis without fsync per job; acknowledged before the run: a crash loses what was prefetched; no history",
    ),
    Subject(
        "dramatiq",
        "dramatiq",
        "Redis",
        ("dramatiq[redis]",),
        slots=8,
        backlog=15_000,
        bulk=False,
        settings="one process of 8 threads",
        lacks="Redis without fsync per job; no history; no bulk call",
    ),
)


def chosen(names: str) -> list[Subject]:
    """The subjects of a list with commas; `all`, `own` (Rowlock and the loops) and `peers` stand for several."""
    groups = {
        "all": list(SUBJECTS),
        "own": [subject for subject in SUBJECTS if not subject.is_peer],
        "peers": [subject for subject in SUBJECTS if subject.is_peer],
    }
    known = {subject.name: [subject] for subject in SUBJECTS} | groups
    wanted: dict[str, Subject] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name not in known:
            raise SystemExit(f"No subject is called {name!r}. There are: {', '.join(known)}.")
        wanted |= {subject.name: subject for subject in known[name]}
    return [subject for subject in SUBJECTS if subject.name in wanted]
