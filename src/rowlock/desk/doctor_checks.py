"""The doctor's checks: functions from the values that it read to findings; they read nothing themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rowlock.model import ids
from rowlock.model.doctor_finding import fail, ok, warn
from rowlock.model.lane import kinds_by_lane
from rowlock.model.times.duration import humanise

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rowlock.model.doctor_finding import Finding
    from rowlock.model.workload import Backlog, Status, WorkerView
    from rowlock.settings import Settings
    from rowlock.store.connections.probes import PoolerCheck
    from rowlock.store.schema.migrate import SchemaStatus

    Row = Mapping[str, Any]

OLDEST_SERVER: Final = 15
PER_WORKER: Final = 4
"""Connections of a worker process: claim, finish, beat and LISTEN."""
_BUSY: Final = 0.9
_CLOCK: Final = timedelta(seconds=2)
_DEAD: Final = 100_000
_LONG_WAIT: Final = timedelta(minutes=5)
_LONG_PENDING: Final = timedelta(days=1)
_LONG_UPKEEP: Final = timedelta(minutes=5)
_LATE_SCHEDULE: Final = timedelta(seconds=30)
_QUEUE_FILLS: Final = 0.1
"""Share of the queue of notifications that a healthy server never uses."""
_SHOWN: Final = 5
FAILING_LEAST: Final = 20
"""A kind with at least so many ends in the last hour is judged by the share of failures,"""
FAILING_SHARE: Final = 0.5
"""which is bad above this."""
FAILING_ALL_OF: Final = 5
"""A kind with at least so many ends is reported if all of them failed."""
_LANE: Final = "Name it in a lane's kinds: rowlock lanes set LANE --kinds …"


def pooler(found: PoolerCheck, settings: Settings) -> Finding:
    """A pooler between this process and the server, and whether the settings fit it."""
    if found.by_transaction:
        if not settings.pooled:
            return fail(
                "pooler",
                "a pooler in transaction mode is in front of the server, and ROWLOCK_POOLED is off",
                "Set ROWLOCK_POOLED=on, and ROWLOCK_DIRECT_URL to the server itself for LISTEN.",
            )
        if settings.direct_url is None and settings.listen:
            return warn(
                "pooler",
                "a pooler in transaction mode, and no direct way to the server: LISTEN does not work through it",
                "Set ROWLOCK_DIRECT_URL to the server itself, or ROWLOCK_LISTEN=off.",
            )
        return ok("pooler", "transaction mode, as ROWLOCK_POOLED says")
    if settings.pooled:
        return warn(
            "pooler",
            "ROWLOCK_POOLED is on, but " + ("the pooler keeps sessions" if found.pooler else "there is no pooler"),
            "Unset it: prepared statements and plan guards make claims faster.",
        )
    return ok("pooler", "session mode" if found.pooler else "none")


def version(row: Row) -> Finding:
    """The server's version and role."""
    if row["standby"]:
        return fail("server", "this is a standby: nothing can be written", "Use the URL of the primary.")
    if row["number"] < OLDEST_SERVER * 10_000:
        says = f"PostgreSQL {row['version']}; Rowlock needs {OLDEST_SERVER} or newer"
        return fail("server", says, "Upgrade the server.")
    return ok("server", f"PostgreSQL {row['version']}, primary")


def clock(apart: timedelta, blur: timedelta) -> Finding:
    """apart: the database's clock minus this machine's; blur: how long the question took."""
    if abs(apart) - blur > _CLOCK:
        way = "ahead of" if apart > timedelta(0) else "behind"
        return warn(
            "clock",
            f"the database is {_span(abs(apart))} {way} this machine; its clock decides when jobs are due",
            "Synchronise both clocks (NTP).",
        )
    return ok("clock", f"within {max(abs(apart), blur).total_seconds() * 1000:.0f} ms of the database's")


def durability(row: Row) -> list[Finding]:
    """Server settings that can lose jobs in a crash."""
    off = [name for name in ("fsync", "full_page_writes") if row[name] == "off"]
    if off:
        return [warn("durability", f"{' and '.join(off)} off: a crash may destroy the database", f"Turn {off[0]} on.")]
    if row["synchronous_commit"] == "off":
        return [
            warn(
                "durability",
                "synchronous_commit is off: a crash may forget the last jobs and outcomes",
                "Turn it on for the role of the application, unless that is wanted.",
            )
        ]
    return [ok("durability", f"synchronous_commit {row['synchronous_commit']}")]


def connections(row: Row, live_workers: int) -> Finding:
    """Connections in use and connections that workers may need, against the server's limit."""
    allowed = row["max_connections"] - row["reserved"]
    needed = row["connected"] - row["ours"] + max(row["ours"], PER_WORKER * live_workers)
    says = f"{row['connected']} of {allowed}, {row['ours']} of them Rowlock's"
    if live_workers:
        says += f"; {live_workers} worker{'s' * (live_workers != 1)} may use {PER_WORKER * live_workers}"
    if needed > _BUSY * allowed:
        return warn("connections", says, "Raise max_connections, use a pooler, or run fewer worker processes.")
    return ok("connections", says)


def schema(found: SchemaStatus, name: str) -> Finding:
    """Whether this code can run on the tables."""
    says = f"{name!r} is at version {found.version}, this code was written for {found.newest}"
    if found.version == 0:
        return fail("schema", f"there are no tables in schema {name!r}", "rowlock schema upgrade")
    if found.version < found.newest:
        return fail("schema", says, "rowlock schema upgrade")
    if found.compatible_since > found.newest:
        return fail("schema", says, "Install a newer rowlock.")
    if found.version > found.newest:
        return warn("schema", says, "Install a newer rowlock; until then this one goes on.")
    return ok("schema", f"{name!r} is at version {found.version}")


def vacuum(server: Row, tables: Sequence[Row]) -> Finding:
    """Whether autovacuum keeps up."""
    if "off" in (server["autovacuum"], server["track_counts"]):
        return fail("vacuum", "autovacuum is off: tables and indexes grow for ever", "Set autovacuum = on.")
    if unvacuumed := [row["name"] for row in tables if row["unvacuumed"]]:
        do = f"ALTER TABLE … RESET (autovacuum_enabled) for {', '.join(unvacuumed)}"
        return fail("vacuum", f"autovacuum is off for {', '.join(unvacuumed)}", do)
    full = [row for row in tables if row["dead"] > _DEAD and row["dead"] > row["live"]]
    if full:
        says = ", ".join(f"{row['name']} has {row['dead']:,} dead rows and {row['live']:,} live ones" for row in full)
        return warn("vacuum", says, "See what keeps vacuum from them: old transactions and slots, below.")
    return ok("vacuum", f"on; {sum(row['dead'] for row in tables):,} dead rows")


def transactions(old: Sequence[Row]) -> Finding:
    """Long transactions, which keep dead rows from being removed."""
    if not old:
        return ok("transactions", "none is older than 15 minutes")
    says = "; ".join(f"{row['what']} ({row['who']}, {row['state']}) for {_span(row['age'])}" for row in old)
    return warn(
        "transactions",
        f"old ones keep vacuum from removing dead rows: {says}",
        "End them (pg_terminate_backend, ROLLBACK PREPARED), and set idle_in_transaction_session_timeout.",
    )


def slots(idle: Sequence[Row]) -> Finding:
    """Replication slots without a reader, which keep WAL and dead rows."""
    if not idle:
        return ok("slots", "no replication slot without a reader")
    kept = [f"{row['name']} ({_size(row['bytes'] or 0)} of log{', dead rows' * row['holds_rows']})" for row in idle]
    return warn(
        "slots",
        f"no client reads from {', '.join(kept)}",
        "Start the reader again, or pg_drop_replication_slot('…').",
    )


def workers(status: Status) -> list[Finding]:
    """Workers that beat, workers that are silent, and their versions."""
    views = [item.worker for item in status.workers]
    if not views:
        waiting = any(lane.due for lane in status.lanes) or bool(status.unserved)
        says = "none" + (", and jobs are waiting" if waiting else "")
        return [warn("workers", says, "rowlock worker --app module:attribute")]
    found = []
    if silent := [view for view in views if view.silent]:
        names = _some(f"{view.name} ({view.running} jobs)" for view in silent)
        do = "See whether the process or its machine is gone; its jobs are rescued after the lane's heartbeat_timeout."
        found.append(warn("workers", f"silent for more than 15 s: {names}", do))
    if stuck := [view for view in views if view.stuck]:
        names = _some(f"{view.name} ({view.stuck} slots)" for view in stuck)
        found.append(warn("workers", f"handlers that do not stop hold slots: {names}", "Restart these workers."))
    if len(versions := {view.version for view in views}) > 1:
        do = "Restart the older ones, unless a deployment is under way."
        found.append(warn("workers", f"different versions run: {', '.join(sorted(versions))}", do))
    working = sum(view.works for view in views)
    return found or [ok("workers", f"{working} at work, {sum(view.running for view in views)} jobs in their slots")]


def set_aside(status: Status) -> list[Finding]:
    """Jobs, and rows of other tables, of which the database does not take a write; their workers set them aside."""
    workers = [item.worker for item in status.workers]
    found = []
    if count := sum(worker.set_aside_count for worker in workers):
        says = f"{count} jobs wait for the database to take a write of them"
        if jobs := sorted((job for worker in workers for job in worker.set_aside), key=lambda job: job.lasted):
            worst = jobs[-1]
            says += f", {ids.encode(worst.job_id)} for {_span(worst.lasted)}: its {worst.step} fails: {worst.error}"
            says += f"; it waits for {worst.blocked_by}" if worst.blocked_by else ""
        do = (
            "End the transaction of that session (SELECT pg_terminate_backend(pid)), or mend the trigger or constraint."
        )
        found.append(warn("set aside", says, do))
    if rows := sorted((row for worker in workers for row in worker.set_aside_rows), key=lambda row: row.lasted):
        worst_row = rows[-1]
        says = f"upkeep passes over {_some(row.row for row in rows)}, {worst_row.row} for {_span(worst_row.lasted)}: "
        says += f"its {worst_row.step} fails: {worst_row.error}"
        found.append(warn("set aside", says, "Mend the trigger or constraint, or the values of the row."))
    return found or [ok("set aside", "no row is")]


def notify_queue(rows: Sequence[Row]) -> Finding:
    """Whether PostgreSQL's queue of notifications fills up because a listener does not read."""
    usage = rows[0]["usage"]
    if usage < _QUEUE_FILLS:
        return ok("notifications", "the queue is read")
    pid, who, age = rows[0]["pid"], rows[0]["who"], rows[0]["age"]
    says = f"the queue is {usage:.0%} full, and from 90% on workers find jobs by polling only"
    says += f"; process {pid} ({who}) has been in a transaction for {_span(age)}" if age is not None else ""
    return warn("notifications", says, "End the listener that does not read: SELECT pg_terminate_backend(pid)")


def lanes(status: Status) -> list[Finding]:
    """Lanes with waiting jobs that no worker serves or that are drained."""
    found = []
    live = [item.worker for item in status.workers if item.worker.works]
    served = kinds_by_lane([load.lane for load in status.lanes], {kind for worker in live for kind in worker.kinds})
    for load in status.lanes:
        name, waits = load.lane.name, f"{load.due} due jobs wait" if load.due else "nothing waits"
        if not load.lane.enabled and load.due:
            found.append(warn("lanes", f"{name} is drained, and {waits}", f"rowlock lanes resume {name}"))
        elif load.workers == 0 and status.workers and not _is_carried(name, served.get(name, ()), live):
            do = f"rowlock worker --lanes {name}, or leave --lanes out to serve all"
            found.append(warn("lanes", f"no live worker serves {name}, and {waits}", do))
        elif load.lane.slots == 0 and load.due:
            found.append(warn("lanes", f"{name} has no slots, and {waits}", f"rowlock lanes set {name} --slots 10"))
    return found or [ok("lanes", f"{len(status.lanes)}, each with what it needs" if status.lanes else "none yet")]


def _is_carried(lane: str, kinds: Collection[str], live: Sequence[WorkerView]) -> bool:
    """Whether carriers bring all jobs of a lane, so that it needs no worker."""
    knowing = {kind: [worker for worker in live if kind in worker.kinds] for kind in kinds}
    return bool(kinds) and all(any(one.carrier_of(kind, lane) for one in those) for kind, those in knowing.items())


def kinds(status: Status, backlog: Sequence[Backlog], own: Sequence[str] | None) -> list[Finding]:
    """Kinds with waiting jobs that no worker can run, and kinds of the application that no worker knows."""
    known = {kind for item in status.workers if item.worker.works for kind in item.worker.kinds}
    found = [
        warn("kinds", f"no lane serves {item.kind}, and {item.due + item.scheduled} jobs wait", _LANE)
        for item in status.unserved[:_SHOWN]
    ]
    queued = {item.kind for item in backlog}
    if known and (strange := sorted(queued - known)):
        says = f"no live worker knows {_some(strange)}, and jobs of it wait"
        found.append(warn("kinds", says, "Start a worker with that code, or give the new name an alias in it."))
    if own is not None and known and (fresh := sorted(set(own) - known - queued)):
        do = "Restart the workers with the new code."
        found.append(warn("kinds", f"no live worker knows {_some(fresh)} of this application", do))
    return found or [ok("kinds", f"{len(known)} known to the workers")]


def schedules(rows: Sequence[Row], status: Status) -> list[Finding]:
    """Schedules of kinds that no worker knows, and schedules that code declared once and no longer does."""
    if not rows or not any(item.worker.works for item in status.workers):
        return [ok("schedules", f"{len(rows)}" if rows else "none")]
    found = []
    if strange := [row for row in rows if row["enabled"] and not row["known"]]:
        names = _some(f"{row['name']} ({row['kind']})" for row in strange)
        do = "Start a worker with that code, or pause or remove it: rowlock schedules rm NAME"
        found.append(warn("schedules", f"no live worker knows the kind of {names}", do))
    late = [row for row in rows if row["enabled"] and row["known"] and row["late"] and row["late"] > _LATE_SCHEDULE]
    if late:
        says = f"{late[0]['name']} was due {_span(late[0]['late'])} ago and has not fired"
        found.append(warn("schedules", says, "Look for errors of schedules in the workers' logs."))
    if undeclared := [row["name"] for row in rows if row["enabled"] and row["undeclared"]]:
        do = f"If it is to end with its declaration: rowlock schedules rm {undeclared[0]}"
        found.append(warn("schedules", f"code declared {_some(undeclared)} once, and no live worker's does", do))
    return found or [ok("schedules", f"{len(rows)}, each of a kind the workers know")]


def upkeep(duties: Sequence[Row], status: Status) -> Finding:
    """Whether the duties of upkeep are carried out."""
    if not any(item.worker.works for item in status.workers):
        return ok("upkeep", "rests until a worker is there")
    late = [row for row in duties if row["age"] > _LONG_UPKEEP]
    if late:
        says = f"the last {late[0]['name']} was {_span(late[0]['age'])} ago, though workers live"
        return warn("upkeep", says, "Look for errors of upkeep in the workers' logs.")
    return ok("upkeep", "rounds are made")


def oldest(rows: Sequence[Row]) -> Finding:
    """The due job that waits longest."""
    if not rows:
        return ok("waiting", "no job is overdue")
    row = rows[0]
    says = f"the oldest due job is {ids.encode(row['id'])} ({row['kind']}), for {_span(row['age'])}"
    if row["age"] > _LONG_WAIT:
        return warn("waiting", says, f"rowlock jobs explain {ids.encode(row['id'])}")
    return ok("waiting", says)


def pending(rows: Sequence[Row], cap: int) -> Finding:
    """Jobs that wait for approval."""
    if not rows:
        return ok("approval", "no job awaits it")
    row = rows[0]
    says = f"{_capped(row['n'], cap)} jobs await it, the oldest for {_span(row['age'])}"
    if row["age"] > _LONG_PENDING:
        who = f"; the roles {row['roles']} may" if row["roles"] else "; no role may, see jobs:approve"
        return warn("approval", says, f"rowlock jobs approve {ids.encode(row['id'])}, or reject it{who}")
    return ok("approval", says)


def held(rows: Sequence[Row], cap: int) -> Finding:
    """Jobs held for a person because their worker died."""
    if not rows:
        return ok("held", "no job is held")
    says = f"{_capped(rows[0]['n'], cap)} jobs are held because their worker died under them"
    job = ids.encode(rows[0]["id"])
    return warn("held", says, f"rowlock jobs show {job}, then approve or reject it")


def stalls(rows: Sequence[Row]) -> list[Finding]:
    """Running jobs that report nothing, and lanes whose progress_timeout is about to end them."""
    found = []
    for row in rows:
        job, lane, limit = ids.encode(row["id"]), row["lane"], row["stall_after"]
        says = f"{row['n']} jobs of {lane} report nothing, {job} for {_span(row['age'])}"
        if limit is None:
            do = f"rowlock jobs explain {job}; rowlock lanes set {lane} --progress-timeout 1h takes such jobs back"
        else:
            says += f"; the lane gives a job up after {_span(limit)}"
            longer = f"rowlock lanes set {lane} --progress-timeout {_span(limit * 4)}"
            do = f"Have the handler call ctx.progress(), or: {longer}"
        found.append(warn("progress", says, do))
    return found or [ok("progress", "no running job has been quiet for long")]


def quarantined(rows: Sequence[Row]) -> Finding:
    """Quarantined jobs, whose worker processes died repeatedly."""
    if not rows or not rows[0]["n"]:
        return ok("quarantine", "no recent failure is in quarantine")
    row = rows[0]
    says = f"{row['n']} jobs ended their worker again and again, the last one {_span(row['age'])} ago"
    return warn("quarantine", says, f"rowlock jobs show {ids.encode(row['id'])}; mend the handler, then retry it")


def failing(rows: Sequence[Row]) -> list[Finding]:
    """Kinds of which most jobs failed within the last hour."""
    found = []
    for row in rows:
        says = f"{row['failed']:,} of {row['ended']:,} jobs of {row['kind']} failed within the last hour"
        if row["error"]:
            says += f", most often with {row['error']!r}"
        do = f"rowlock jobs ls 'state:failed kind:{row['kind']}'"
        if row["id"] is not None:
            do = f"rowlock jobs show {ids.encode(row['id'])}; all of them: {do}"
        found.append(warn("failures", says, do))
    return found or [ok("failures", "no kind fails more often than it succeeds")]


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more


def _capped(n: int, cap: int) -> str:
    return f"{n:,}" + "+" * (n >= cap)


def _span(value: timedelta) -> str:
    whole = timedelta(seconds=max(1, round(value.total_seconds())))
    return humanise(whole if whole < timedelta(hours=1) else timedelta(minutes=round(whole / timedelta(minutes=1))))


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1024:  # noqa: PLR2004 - the step of the units
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"
