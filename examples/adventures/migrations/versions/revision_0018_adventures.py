"""Adventures, their entries, and what belongs to these."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0018"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "adventure",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("user_id", sa.Uuid, nullable=False, index=True),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("language", sa.String, nullable=False),
        sa.Column("reads", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        _moment("created_at"),
    )
    op.create_table(
        "adventure_entry",
        sa.Column("id", sa.Uuid, primary_key=True),
        _of("adventure", "adventure_id"),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("error", sa.String),
        sa.Column("text", sa.String),
        sa.Column("words", JSONB),
        sa.UniqueConstraint("adventure_id", "number"),
    )
    op.create_table(
        "adventure_entry_choice",
        sa.Column("id", sa.Uuid, primary_key=True),
        _of("adventure_entry", "entry_id", index=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("text", sa.String, nullable=False),
    )
    op.create_table(
        "adventure_entry_decision",
        _of("adventure_entry", "entry_id", primary_key=True),
        _of("adventure_entry_choice", "choice_id"),
        _moment("decided_at"),
    )
    op.create_table(
        "adventure_entry_translation",
        _of("adventure_entry", "entry_id", primary_key=True),
        sa.Column("language", sa.String, nullable=False),
        sa.Column("text", sa.String, nullable=False),
    )
    op.create_table(
        "adventure_entry_audio",
        _of("adventure_entry", "entry_id", primary_key=True),
        sa.Column("key", sa.String, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    for each in ("audio", "translation", "decision", "choice"):
        op.drop_table(f"adventure_entry_{each}")
    op.drop_table("adventure_entry")
    op.drop_table("adventure")


def _of(table: str, column: str, *, primary_key: bool = False, index: bool = False) -> sa.Column[object]:
    parent = sa.ForeignKey(f"{table}.id", ondelete="CASCADE")
    return sa.Column(column, sa.Uuid, parent, primary_key=primary_key, nullable=False, index=index or None)


def _moment(column: str) -> sa.Column[object]:
    return sa.Column(column, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())
