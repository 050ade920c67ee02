"""Connections with one purpose, opened through `Database`.

worker_connection.py keeps one connection of a worker's roles alive; lock_session.py is the connection that advisory
locks belong to; probes.py checks connections for `rowlock doctor`. It imports store.database and store.driver; flow and
desk import it. Start with worker_connection.py.
"""

from __future__ import annotations
