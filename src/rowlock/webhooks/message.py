"""The body of a webhook: type, timestamp, and the job as REST shows it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rowlock.model import json_output
from rowlock.model.webhook import INCLUDES, event_name

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from rowlock.model.job import Job

FIELDS: Final = (
    "kind",
    "state",
    "priority",
    "attempt",
    "max_attempts",
    "losses",
    "runs",
    "lane",
    "worker",
    "tenant",
    "submitted_by",
    "created_at",
    "run_after",
    "claimed_at",
    "finished_at",
    "tags",
    "refs",
    "workflow",
    "step",
)
"""Fields that every message has, with the names and values of GET /jobs/{id}, after the public id."""
LARGEST_PART: Final = 65_536
"""Bytes of a part such as the result above which it is left out."""


def message_of(job: Job | None, at: datetime, include: Collection[str]) -> bytes:
    """The body. job None: a test; include: which of INCLUDES are sent, secrets redacted."""
    data: dict[str, object] = {}
    if job is not None:
        data = {"id": job.public_id} | {name: getattr(job, name) for name in FIELDS}
        data["tags"] = list(job.tags)
        parts = {name: _encoded(getattr(job, name)) for name in INCLUDES if name in include}
        omitted = [name for name, text in parts.items() if len(text) > LARGEST_PART]
        data |= {name: None if name in omitted else json.loads(text) for name, text in parts.items()}
        data["omitted"] = omitted
    state = None if job is None else str(job.state)
    return _encoded({"type": event_name(state), "timestamp": json_output.instant(at), "data": data})


def _encoded(value: object) -> bytes:
    return json.dumps(value, default=json_output.plain, separators=(",", ":"), ensure_ascii=False).encode()
