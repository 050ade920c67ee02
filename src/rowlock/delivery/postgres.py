"""PostgresDelivery: the default. Workers hear of jobs by NOTIFY and by polling; no other server takes part."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from rowlock.delivery.backend import Delivery


class PostgresDelivery(Delivery):
    """Rowlock's own workers claim the jobs. Name it for kinds or lanes that another carrier would have otherwise."""

    def __init__(self) -> None:
        super().__init__(name="postgres")

    @override
    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = "default") -> str | None:
        """Nothing to send: the row is the message."""
        return None

    @override
    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """None: there are no messages."""
        return None

    @override
    async def get_job_result(self, backend_job_id: str) -> object | None:
        """None: the result is in the job's row."""
        return None
