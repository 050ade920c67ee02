"""Rowlock's tables, and which job makes an entry."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from rowlock.contrib import alembic as rowlock_tables

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Create them. A later version of Rowlock's tables is a revision of its own, from version 30 on."""
    rowlock_tables.upgrade(to=30)
    op.add_column("adventure_entry", sa.Column("job_id", sa.String))


def downgrade() -> None:
    """Remove them, with all jobs."""
    op.drop_column("adventure_entry", "job_id")
    rowlock_tables.downgrade(since=30, to=0)
