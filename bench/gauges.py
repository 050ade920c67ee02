"""What PostgreSQL counts about one database, before and after a measurement."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
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


def claim_blocks(server: Server, database: str, text: str) -> tuple[int, int]:
    """Shared buffers touched by one statement, and the rows it has returned, so far."""
    # Constants are replaced in the view: what stands before the first one has to do.
    begin = re.split(r"'|(?<![$\w])\d", text.strip())[0]
    with server.connect() as connection:
        query = (
            "SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0), coalesce(sum(rows), 0) "
            "FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid "
            "WHERE d.datname = %s AND starts_with(s.query, %s)"
        )
        (blocks, rows) = connection.execute(query, (database, begin)).fetchone() or (0, 0)
    return int(blocks), int(rows)
