"""Everything that knows SQL: connections, statements, typed verbs, schema and the embedded server.

    sql/          the statements, one file per stage or subject; queries.py reads them
    jobs/         typed verbs of a job's life, a module for each sql file of a stage
    executor.py   SqlExecutor, the protocol that runs a named statement, and SqlSession, which runs it on one connection
    database.py   Database: one database and schema, a small pool for each event loop, errors as users read them
    driver/       what asyncpg lacks: the pool, TCP timeouts, how a dead connection is noticed
    connections/  a worker's connections, the lock session, and probes for `rowlock doctor`
    callers/, caller_transaction.py    adapters that run statements in a transaction of the caller's
    rows/         rows to values of the model
    lanes.py, search.py, bulk.py, notify.py    lanes and kinds; a search as SQL; COPY; LISTEN
    schema/       upgrade, downgrade, verify; migrations/ holds the files and functions/ the bodies as they are now
    embedded/     a PostgreSQL of Rowlock's own for development

Start with sql/claim.sql and jobs/claim.py. May import model and errors; imported by every room above, by the doors for
a short list of reasons alone. Drivers are imported here and nowhere else.
"""

from __future__ import annotations
