"""For the tests of applications: a real database for each test, and time, faults and workers under its control."""

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
