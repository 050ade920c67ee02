"""Everything that knows SQL: connections, statements, typed verbs, schema and the embedded server.

    sql/          the statements, one file per stage or subject; queries.py reads them
    jobs/         typed verbs of a job's life: enqueue, claim, progress, finish, workers
    executor.py   SqlExecutor, the protocol that runs a named statement, and SqlSession, which runs it on one connection
    database.py   Database: one database and schema, a small pool for each event loop, errors as users read them
    connections/  pool, a worker's connections, the lock session, and how dead ones are noticed
    rows/         rows to values of the model
    lanes.py, search.py, bulk.py    lanes and kinds; a search as SQL; COPY
    notify.py     LISTEN
    caller_transaction.py, callers/    statements in a transaction of the caller's, one adapter per library
    schema/       upgrade, downgrade, verify; migrations/ holds the files and functions/ the bodies as they are now
    embedded/     a PostgreSQL of Rowlock's own for development

May import settings, model and errors. Database drivers are imported here and nowhere else. Start with sql/claim.sql
and jobs/claim.py.
"""

from __future__ import annotations
