"""Adapters of callers' connections: run Rowlock's statements in a transaction of another library.

One module per library (asyncpg.py, psycopg.py, sqlalchemy.py, django.py), imported only when an object of that library
is passed as connection= or session=, so that none of them becomes a dependency. Start with protocol.py, which says what
an adapter can do; `store/caller_transaction.py` picks the adapter and runs plans of statements with it. Imported by
that module and by the revisions of Alembic; the adapters import protocol.py, `errors` and `queries`, nothing above.
"""

from __future__ import annotations
