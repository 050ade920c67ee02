"""Adapters of callers' connections: run Rowlock's statements in a transaction of another library.

One module per library (asyncpg, psycopg, SQLAlchemy, Django), imported only when an object of that library is passed as
connection= or session=, so that none of them becomes a dependency. `protocol` says what an adapter can do;
`store/caller_transaction.py` picks the adapter and runs plans of statements with it. The adapters import `protocol`,
`errors` and `queries`, nothing above.
"""

from __future__ import annotations
