"""The database as operators see it, deploys, and what changed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, doc
from rowlock.api.schemas.fields import INSTANT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.doctor_finding import Finding
    from rowlock.model.system_status import Deploy, EndsAround, SystemChange, SystemChanges, SystemStatus

Bytes = Annotated[int, doc("Size in bytes.", 8192)]
InstantOrNull = Annotated[datetime | None, doc("When; null: never.", INSTANT)]


class TableSizeAnswer(Answer):
    """A table."""

    name: Annotated[str, doc("Name of the table.", "jobs")]
    bytes: Bytes
    index_bytes: Annotated[int, doc("Size of its indexes in bytes.", 16384)]
    live: Annotated[int, doc("Rows, as PostgreSQL estimates them.", 120_000)]
    dead: Annotated[int, doc("Dead rows that vacuum has not removed, estimated.", 340)]
    vacuumed_at: InstantOrNull
    analyzed_at: InstantOrNull


class IndexSizeAnswer(Answer):
    """An index."""

    name: Annotated[str, doc("Name of the index.", "jobs_claim")]
    table: Annotated[str, doc("Its table.", "jobs")]
    bytes: Bytes
    scans: Annotated[int, doc("How often it was used since the statistics were reset.", 42)]


class OldestTransactionAnswer(Answer):
    """The transaction that has been open for longest."""

    pid: Annotated[int, doc("Process id of its server process.", 4711)]
    who: Annotated[str, doc("Application name, or user.", "reports")]
    state: Annotated[str, doc("State of its session.", "idle in transaction")]
    open_for: Annotated[float, doc("Seconds since it began.", 12.5)]


class RetentionRuleAnswer(Answer):
    """How long finished jobs stay."""

    kind: Annotated[str, doc("Kind; * for every kind.", "*")]
    state: Annotated[str, doc("Final state; * for every one.", "*")]
    keep: Annotated[float, doc("Seconds.", 604_800.0)]


class DutyAnswer(Answer):
    """A duty of upkeep."""

    name: Annotated[str, doc("Name of the duty.", "rescue")]
    every: Annotated[float, doc("Seconds between two runs.", 2.0)]
    last_run_at: InstantOrNull
    took: Annotated[float, doc("Seconds that the last run took.", 0.004)]


class SchemaStepAnswer(Answer):
    """A migration that was applied."""

    version: Annotated[int, doc("Number of the migration.", 20)]
    name: Annotated[str, doc("Its name.", "failure_groups")]
    applied_at: Annotated[datetime, doc("When it was applied.", INSTANT)]


class SystemAnswer(Answer):
    """The database as operators see it."""

    at: Annotated[datetime, doc("The database's clock when this was read.", INSTANT)]
    server: Annotated[str, doc("Version of PostgreSQL.", "18.1")]
    rowlock: Annotated[str, doc("Version of Rowlock that answers.", "0.2.0")]
    schema_name: Annotated[str, doc("Schema of Rowlock's tables.", "rowlock")]
    version: Annotated[int, doc("Version of the tables.", 22)]
    made_for: Annotated[int, doc("Version of the tables that this code was made for.", 22)]
    steps: Annotated[list[SchemaStepAnswer], doc("Applied migrations in order.")]
    database_bytes: Annotated[int, doc("Size of the whole database in bytes.", 73_400_320)]
    notify_queue: Annotated[float, doc("How full the queue of notifications is, from 0 to 1.", 0.0)]
    connections: Annotated[int, doc("Client connections to the server.", 14)]
    max_connections: Annotated[int, doc("Connections that the server allows.", 100)]
    oldest_transaction: Annotated[OldestTransactionAnswer | None, doc("The oldest one; null: none is open.")]
    tables: Annotated[list[TableSizeAnswer], doc("Tables, the largest first.")]
    indexes: Annotated[list[IndexSizeAnswer], doc("Indexes, the largest first.")]
    retention: Annotated[list[RetentionRuleAnswer], doc("Retention rules; the most specific one decides.")]
    duties: Annotated[list[DutyAnswer], doc("Duties of upkeep by name.")]

    @classmethod
    def of(cls, status: SystemStatus) -> SystemAnswer:
        """From the desk's value."""
        same = ("at", "server", "rowlock", "version", "made_for", "database_bytes", "notify_queue", "connections")
        oldest = status.oldest_transaction
        return cls(
            **{name: getattr(status, name) for name in (*same, "max_connections")},
            schema_name=status.schema,
            steps=[SchemaStepAnswer(version=s.version, name=s.name, applied_at=s.applied_at) for s in status.steps],
            oldest_transaction=None
            if oldest is None
            else OldestTransactionAnswer(
                pid=oldest.pid, who=oldest.who, state=oldest.state, open_for=oldest.open_for.total_seconds()
            ),
            tables=[
                TableSizeAnswer(**{name: getattr(table, name) for name in TableSizeAnswer.model_fields})
                for table in status.tables
            ],
            indexes=[
                IndexSizeAnswer(name=each.name, table=each.table, bytes=each.bytes, scans=each.scans)
                for each in status.indexes
            ],
            retention=[
                RetentionRuleAnswer(kind=rule.kind, state=rule.state, keep=rule.keep.total_seconds())
                for rule in status.retention
            ],
            duties=[
                DutyAnswer(
                    name=duty.name,
                    every=duty.every.total_seconds(),
                    last_run_at=duty.last_run_at,
                    took=duty.took.total_seconds(),
                )
                for duty in status.duties
            ],
        )


class FindingAnswer(Answer):
    """What one check of the doctor saw."""

    check: Annotated[str, doc("Name of the check.", "vacuum")]
    verdict: Annotated[Literal["ok", "warn", "fail"], doc("`fail`: jobs do not run, or not reliably.", "ok")]
    says: Annotated[str, doc("What it saw.", "no transaction is older than 15 minutes")]
    do: Annotated[str, doc("The next step; empty: there is none.", "")]


class DoctorAnswer(Answer):
    """The findings of the doctor."""

    verdict: Annotated[Literal["ok", "warn", "fail"], doc("The worst of them.", "ok")]
    findings: Annotated[list[FindingAnswer], doc("Findings in the order of the checks.")]

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> DoctorAnswer:
        """From the desk's values."""
        verdicts = {finding.verdict for finding in findings}
        worst: Literal["ok", "warn", "fail"] = "fail" if "fail" in verdicts else "warn" if "warn" in verdicts else "ok"
        items = [FindingAnswer(check=f.check, verdict=f.verdict, says=f.says, do=f.do) for f in findings]
        return cls(verdict=worst, findings=items)


class EndsAroundAnswer(Answer):
    """Jobs that ended within an hour."""

    ended: Annotated[int, doc("Jobs that ended.", 1200)]
    failed: Annotated[int, doc("Jobs that failed.", 6)]
    failure_rate: Annotated[float | None, doc("Share of failures; null: nothing ended.", 0.005)]

    @classmethod
    def of(cls, around: EndsAround) -> EndsAroundAnswer:
        """From the desk's value."""
        return cls(ended=around.ended, failed=around.failed, failure_rate=around.failure_rate)


class DeployMarkerAnswer(Answer):
    """The first worker of a version of the application."""

    version: Annotated[str, doc("ROWLOCK_APP_VERSION of the worker, or the version of Rowlock.", "2026.11.3")]
    at: Annotated[datetime, doc("When the first worker of the version started.", INSTANT)]
    workers: Annotated[int, doc("Workers that run it now.", 4)]
    before: Annotated[EndsAroundAnswer, doc("The hour before; begins with whole ten minutes, or a whole hour.")]
    after: Annotated[EndsAroundAnswer, doc("The hour after, as far as it has passed.")]

    @classmethod
    def of(cls, deploy: Deploy) -> DeployMarkerAnswer:
        """From the desk's value."""
        return cls(
            version=deploy.version,
            at=deploy.at,
            workers=deploy.workers,
            before=EndsAroundAnswer.of(deploy.before),
            after=EndsAroundAnswer.of(deploy.after),
        )


class DeploysAnswer(Answer):
    """Deploys of a span."""

    items: Annotated[list[DeployMarkerAnswer], doc("Deploys, the newest first.")]


class ChangeAnswer(Answer):
    """Something that may explain what follows."""

    at: Annotated[datetime, doc("When.", INSTANT)]
    what: Annotated[str, doc("`deploy`, `failure.began`, or an action of the audit.", "lane.set")]
    target: Annotated[str, doc("What changed: a version, failure:…, or a target of the audit.", "lane:reports")]
    by: fields.ByOrNull
    note: fields.NoteOrNull
    before: Annotated[dict[str, Any] | None, doc("Values before; null: none.", {"slots": 4})]
    after: Annotated[dict[str, Any] | None, doc("Values after; null: none.", {"slots": 8})]

    @classmethod
    def of(cls, change: SystemChange) -> ChangeAnswer:
        """From the desk's value."""
        return cls.model_validate({name: getattr(change, name) for name in cls.model_fields})


class ChangesAnswer(Answer):
    """Changes of a span."""

    items: Annotated[list[ChangeAnswer], doc("Changes, the newest first.")]
    complete: Annotated[bool, doc("False: the audit has too many later lines to be read back to `from`.", True)]

    @classmethod
    def of(cls, found: SystemChanges) -> ChangesAnswer:
        """From the desk's value."""
        return cls(items=[ChangeAnswer.of(change) for change in found.changes], complete=found.complete)
