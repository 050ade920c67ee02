"""The Rowlock of the application. The kinds are in interactive.py, maintenance.py and system.py, one module per lane.

Lanes are created by the migration; afterwards their rows decide, and operators edit them while workers run.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from examples.knowledge_graph.models import Models
from examples.knowledge_graph.tables import sessions
from rowlock import Retry, Rowlock

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

tasks = Rowlock()
models = Models(os.environ.get("MODELS_URL", "http://127.0.0.1:8100/"))

USER_PRIORITY = 10
"""Of what a person waits for. Scheduled maintenance has 0, the default."""
PATIENT = Retry(attempts=3, minimum="2s", multiplier=2, on=(OSError,))
"""A service may be away for a moment; any other error would come again."""


def new_session(*, pooled: bool = True) -> Session:
    """A session of the application's own tables. pooled=False: its connection ends with it."""
    return sessions(tasks, pooled=pooled)()
