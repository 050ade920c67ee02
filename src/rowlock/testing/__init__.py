"""The test kit for applications: a real database for each test, with time, faults and workers under its control.

Start with kit.py (`Kit`, what the pytest fixture `rowlock` gives); databases.py lends the databases, drain.py runs
jobs, clock.py lets time pass, faults.py makes attempts fail, stub.py calls handlers without any database. It may import
everything but cli and web, and nothing in Rowlock imports it.
"""

from __future__ import annotations

from unittest.mock import ANY

from rowlock.testing.databases import Databases
from rowlock.testing.drain import Drained
from rowlock.testing.kit import Kit
from rowlock.testing.match import near
from rowlock.testing.stub import StubContext, StubSyncContext, stub_context, stub_sync_context

__all__ = [
    "ANY",
    "Databases",
    "Drained",
    "Kit",
    "StubContext",
    "StubSyncContext",
    "near",
    "stub_context",
    "stub_sync_context",
]
