"""What PostgreSQL counts about one database, before and after a measurement."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.server import Server


@dataclass(frozen=True, slots=True)
class Gauges:
    """Running totals."""

    wal: int
    """Bytes written by the whole server."""
    transactions: int
    statements: int
    dead: int
    """Tuples updated or deleted: what vacuum has to clear away."""
    blocks: int
    """Shared buffers touched by all statements."""

    @classmethod
    def read(cls, server: Server, database: str) -> Self:
        """As they stand now; asked through another database, so that the asking is not counted."""
        with server.connect() as connection:
            (wal,) = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone() or (0,)
            (transactions,) = connection.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s", (database,)
            ).fetchone() or (0,)
            statements = blocks = 0
            if server.counts_statements:
                (statements, blocks) = connection.execute(
                    "SELECT coalesce(sum(calls), 0), coalesce(sum(shared_blks_hit + shared_blks_read), 0) "
                    "FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = %s",
                    (database,),
                ).fetchone() or (0, 0)
        with server.connect(database) as connection:
            (dead,) = connection.execute(
                "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables"
            ).fetchone() or (0,)
        return cls(int(wal), int(transactions), int(statements), int(dead), int(blocks))

    def since(self, before: Gauges) -> Gauges:
        """What has happened since then."""
        earlier = asdict(before)
        return Gauges(**{name: value - earlier[name] for name, value in asdict(self).items()})


def connections(server: Server, database: str) -> int:
    """How many clients are connected to a database."""
    with server.connect() as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
        (count,) = connection.execute(query, (database,)).fetchone() or (0,)
    return int(count)


def claim_blocks(server: Server, database: str, texts: Iterable[str]) -> tuple[int, int]:
    """Shared buffers touched by these statements, and the rows they have returned, so far."""
    # Constants are replaced in the view: what stands before the first one has to do.
    begins = [re.split(r"'|(?<![$\w])\d", text.strip())[0] for text in texts]
    with server.connect() as connection:
        query = (
            "SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0), coalesce(sum(rows), 0) "
            "FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid "
            "WHERE d.datname = %s AND EXISTS (SELECT FROM unnest(%s::text[]) b WHERE starts_with(s.query, b))"
        )
        (blocks, rows) = connection.execute(query, (database, begins)).fetchone() or (0, 0)
    return int(blocks), int(rows)
