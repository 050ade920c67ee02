"""Run by Alembic: on DATABASE_URL, or offline as SQL."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alembic import context

from examples.adventures.database import Base, engine
from examples.adventures.settings import settings
from rowlock.contrib import alembic as rowlock_tables

if TYPE_CHECKING:
    from sqlalchemy import Connection


def run(connection: Connection | None = None) -> None:
    """Run the revisions, each in a transaction of its own; without a connection, print them."""
    context.configure(
        connection=connection,
        url=None if connection else settings.database_url,
        target_metadata=Base.metadata,
        literal_binds=connection is None,
        transaction_per_migration=True,
        include_schemas=True,
        include_name=rowlock_tables.include_name(own=own_schema),
    )
    with context.begin_transaction():
        context.run_migrations()


def own_schema(name: str | None, type_: str, _parents: object) -> bool:
    """Whether autogenerate looks at it: at the default schema alone, which Alembic calls None."""
    return type_ != "schema" or name is None


async def online() -> None:
    """Run the revisions on the database."""
    async with engine.connect() as connection:
        await connection.run_sync(run)
    await engine.dispose()


if context.is_offline_mode():
    run()
else:
    asyncio.run(online())
