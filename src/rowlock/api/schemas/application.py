"""The served application: its kinds, what the API offers, and its health."""

from __future__ import annotations

from typing import Annotated, Literal

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, doc, seconds
from rowlock.model.kind import Kind

Problems = Annotated[list[str], doc("Why not, without names of servers or schemas; empty: all is well.", [])]


class KindAnswer(Answer):
    """A kind and the defaults of its jobs."""

    name: Annotated[str, doc("Name of the kind.", "send_invoice")]
    lane: Annotated[str | None, doc("Lane that the code suggests; null: none. The lane's row decides.", "reports")]
    priority: fields.Priority
    max_attempts: fields.MaxAttempts
    timeout: Annotated[float | None, doc("Seconds after which an attempt is stopped; null: no limit.", 600.0)]
    approval: Annotated[bool, doc("Whether its jobs wait for a person's approval.", False)]
    aliases: Annotated[list[str], doc("Older names that still find the kind.", ["mail_invoice"])]
    description: Annotated[str | None, doc("Docstring of the function; null: none.", "Send an invoice by mail.")]

    @classmethod
    def of(cls, kind: Kind, description: str | None) -> KindAnswer:
        """From the declaration of the kind."""
        return cls(
            name=kind.name,
            lane=kind.lane,
            priority=kind.priority,
            max_attempts=kind.retry.attempts,
            timeout=seconds(kind.timeout),
            approval=bool(kind.approval),
            aliases=list(kind.aliases),
            description=description,
        )


class KindsAnswer(Answer):
    """Every kind of the served application."""

    items: Annotated[list[KindAnswer], doc("Kinds by name.")]


class InstanceAnswer(Answer):
    """The installation that answers."""

    name: Annotated[str, doc("Its name.", "production")]
    colour: Annotated[
        Literal["grey", "blue", "green", "amber", "red", "purple"], doc("Colour that its name is shown on.", "red")
    ]


class FeaturesAnswer(Answer):
    """What this API offers, for clients that adapt."""

    version: Annotated[str, doc("Version of Rowlock that answers.", "1.0.0")]
    schema_version: Annotated[
        int | None, doc("Version of the tables in the database; null: the database did not answer in time.", 28)
    ]
    read_only: Annotated[bool, doc("Whether every change is refused.", False)]
    instance: Annotated[InstanceAnswer | None, doc("Name and colour of this installation; null: it has no name.")]
    metrics: Annotated[bool, doc("Whether /metrics is available.", True)]
    logins: Annotated[list[str], doc("Logins of this server: token, oidc. /auth/logins says more.", ["token", "oidc"])]


class HealthAnswer(Answer):
    """The process answers."""

    status: Annotated[str, doc("Always ok.", "ok")] = "ok"


class ReadyAnswer(Answer):
    """Whether requests can be answered."""

    ready: Annotated[bool, doc("Whether the database answers and its schema fits this code.", True)]
    problems: Problems


class DeployAnswer(Answer):
    """Whether the workers can be replaced now."""

    safe: Annotated[bool, doc("Whether replacing the workers harms no running job.", True)]
    problems: Problems
    waiting_jobs: Annotated[int, doc("Running jobs that must not run again.", 1)]
    waiting_for: Annotated[dict[str, int], doc("The same by kind; empty for callers without workers:view.", {"pay": 1})]
