"""The graph, the jobs, the three lanes with their default values, and the roles of the application."""

from __future__ import annotations

from alembic import op

from examples.knowledge_graph.tables import Base
from rowlock.contrib import alembic as rowlock_tables

revision, down_revision = "0001", None

INTERACTIVE = ("ingestion", "ingest_image", "polarity")
MAINTENANCE = ("projection", "vocab_refresh", "epistemic_remeasurement", "ontology_annealing", "proposal_execution")
SYSTEM = ("restore", "vocab_consolidate", "artifact_cleanup", "source_embedding")
ROLES = {
    "contributor": ["jobs:read", "jobs:submit", "jobs:approve", "jobs:cancel", "jobs:delete"],
    "worker_monitor": ["workers:view"],
    "worker_operator": ["workers:manage"],
}


def upgrade() -> None:
    """Rowlock's own revision brings the role platform_admin, which has workers:view and workers:manage."""
    rowlock_tables.upgrade()  # an application outside this repository names the version: upgrade(to=…)
    rowlock_tables.create_lane(
        "interactive", kinds=INTERACTIVE, slots=2, poll_interval="2s", heartbeat_timeout="30m", progress_timeout="30m"
    )
    rowlock_tables.create_lane(
        "maintenance", kinds=MAINTENANCE, slots=1, poll_interval="15s", heartbeat_timeout="30m", progress_timeout="30m"
    )
    rowlock_tables.create_lane(
        "system", kinds=SYSTEM, slots=1, poll_interval="30s", heartbeat_timeout="30m", progress_timeout="30m"
    )
    for role, permissions in ROLES.items():
        rowlock_tables.set_role(role, permissions)
    Base.metadata.create_all(op.get_bind())


def downgrade() -> None:
    """Remove everything, the jobs included."""
    Base.metadata.drop_all(op.get_bind())
    rowlock_tables.downgrade()
