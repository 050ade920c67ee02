"""Run by Alembic: the revisions on the database of the jobs."""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from examples.knowledge_graph.tables import SCHEMA, Base
from rowlock.contrib import alembic as rowlock_tables


def run() -> None:
    """Bring the database to the wanted revision, in one transaction."""
    url = make_url(context.config.get_main_option("url") or "").set(drivername="postgresql+psycopg")
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            include_schemas=True,
            include_name=rowlock_tables.include_name(),
            version_table_schema=SCHEMA,
        )
        context.run_migrations()


run()
