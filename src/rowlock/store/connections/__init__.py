"""How connections are opened, lent, watched and given up.

pool.py lends a few connections of one event loop; worker_connection.py keeps one of a worker's roles alive;
lock_session.py is the connection that advisory locks belong to. The others serve these: tcp_timeouts, array_types,
statement_check (is the server still at a statement that it does not answer?) and probes (for `rowlock doctor`).
Imported by store.database, flow and desk. Start with worker_connection.py.
"""

from __future__ import annotations
