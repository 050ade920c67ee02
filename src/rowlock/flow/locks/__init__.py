"""Locks over all processes: one holder per key, on PostgreSQL's advisory locks.

Start with lock.py (`LockRequest`, `HeldLock`), then process_locks.py (`LoopLocks`), which acquires and releases;
context_managers.py has the `with` and `async with` blocks of handlers and applications. It imports no other shelf of
flow; progress, executors and the application import it.
"""

from __future__ import annotations
