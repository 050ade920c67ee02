"""What the database driver lacks: the layer between asyncpg and `Database`.

pool.py lends a few connections of one event loop; tcp_timeouts.py lets both ends notice a dead network;
statement_check.py asks the server about a statement that it does not answer; array_types.py registers array types
with asyncpg. It imports model and errors only; store.database and store.connections import it. Start with pool.py.
"""

from __future__ import annotations
