"""The nightly digest of the news."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Create its table."""
    op.create_table(
        "news_digest",
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("text", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )


def downgrade() -> None:
    """Drop its table."""
    op.drop_table("news_digest")
