"""ServerWarnings: what functions of the schema say of rows that they pass over, read from a connection's messages."""

from __future__ import annotations

import json
import logging
import weakref
from typing import TYPE_CHECKING, Final

from rowlock.model import ids

if TYPE_CHECKING:
    import asyncpg

    from rowlock.set_aside import RowName, SetAside

logger = logging.getLogger("rowlock.database")
_PREFIX: Final = "rowlock: "
"""How the messages of warn_refused() in store/functions/refused_rows.sql begin."""


class ServerWarnings:
    """Notes refused rows in the lists of this process's workers; in a process without workers it logs them."""

    def __init__(self) -> None:
        self._workers: weakref.WeakSet[SetAside] = weakref.WeakSet()

    def note_in(self, set_aside: SetAside) -> None:
        """Note refused rows in this list, too, for as long as it lives."""
        self._workers.add(set_aside)

    def __call__(self, _connection: object, message: asyncpg.PostgresLogMessage) -> None:
        """Read one message of the server; others than those of refused rows are left alone."""
        found = _refused_row(message)
        if found is None:
            return
        row, step, error = found
        lists = list(self._workers)
        for set_aside in lists:
            set_aside.begin(row, step, error)
        if not lists:
            name = f"job {ids.encode(row)}" if isinstance(row, int) else row
            logger.warning("%s is passed over, its %s fails: %s", name, step, error)


def _refused_row(message: asyncpg.PostgresLogMessage) -> tuple[RowName, str, str] | None:
    """The row, the step and the error of a warning; None: it is about something else."""
    if not (message.message or "").startswith(_PREFIX) or not message.detail:
        return None
    try:
        said = json.loads(message.detail)
        return said.get("job") or said["row"], said["step"], said["error"]
    except (ValueError, KeyError, AttributeError):
        # A trigger of the user's may warn in similar words.
        return None
