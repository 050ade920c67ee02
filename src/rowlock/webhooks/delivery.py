"""Deliveries: sends one signed message to one endpoint, and notes how it went."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from rowlock.desk import audit
from rowlock.desk.guard import TRUSTED
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.desk.webhooks import webhook_of
from rowlock.errors import JobNotFound, RowlockError, WebhookFailed, WebhookRefused
from rowlock.model.outcome import Cancel
from rowlock.model.state import State
from rowlock.model.webhook import AT_ONCE, STREAK, signature, split_url
from rowlock.store.database import TRANSIENT
from rowlock.webhooks.addresses import resolved
from rowlock.webhooks.http_post import SECONDS, HttpAnswer, post
from rowlock.webhooks.message import message_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rowlock.flow.progress.context import Context
    from rowlock.model.job import Job
    from rowlock.model.webhook import Webhook
    from rowlock.model.webhook_rules import WebhookRules
    from rowlock.store.database import Database
    from rowlock.webhooks.addresses import Resolve

logger = logging.getLogger("rowlock.webhooks")
_GONE: Final = 410
_LONGEST_WAIT: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class DeliveredEvent:
    """The job event that one webhook delivery reports, as the database wrote it when it happened."""

    job: int
    fence: int
    kind: str
    state: State
    attempt: int
    at: datetime

    @classmethod
    def of(cls, job: int, fence: int, kind: str, state: str, attempt: int, at: str) -> DeliveredEvent:  # noqa: PLR0917 - its fields
        """Read the arguments of a delivery."""
        return cls(job, fence, kind, State(state), attempt, cls.moment(at))

    @staticmethod
    def moment(text: str) -> datetime:
        """Read a moment as PostgreSQL writes it into JSON."""
        return datetime.fromisoformat(text)


class Deliveries:
    """Sends deliveries. resolve, seconds: replaced by tests."""

    def __init__(
        self,
        database: Callable[[], Database],
        rules: Callable[[], WebhookRules],
        *,
        user_agent: str = "rowlock",
        resolve: Resolve = resolved,
        seconds: float = SECONDS,
    ) -> None:
        self._open, self._rules, self._user_agent = database, rules, user_agent
        self._resolve, self._seconds = resolve, seconds

    async def deliver(self, context: Context, webhook_id: int, event: DeliveredEvent | None, at: datetime) -> object:
        """Send the message of one delivery; the answer is its result."""
        database = self._open()
        # Gates that nothing names for a week are removed; this one is made again before it is missed.
        await database.fetch("register_gates", keys=[f"webhook:{webhook_id}"], limits=[AT_ONCE], fifos=[False])
        found = await database.fetch("webhook_delivery", id=webhook_id)
        if not found:
            return Cancel(f"webhook {webhook_id} was removed")
        (row,) = found
        webhook = webhook_of(row)
        if not webhook.enabled and event is not None:
            return Cancel(f"webhook {webhook_id} is disabled")
        job = None if event is None else await self._job(context, event)
        body = message_of(job, at, webhook.include)
        try:
            answer = await self._send(webhook, context.job.public_id, row["now"], row["secrets"], body)
        except (WebhookFailed, WebhookRefused) as error:
            gone = isinstance(error, WebhookFailed) and error.status == _GONE
            last = isinstance(error, WebhookRefused) or context.job.attempt >= context.job.max_attempts
            noting = self._failed(webhook, str(error), gives_up=last and event is not None, gone=gone)
            if await self._note(webhook_id, noting) and gone:
                return Cancel(f"the endpoint answered {_GONE} Gone, so webhook {webhook_id} was disabled")
            raise
        await self._note(webhook_id, database.fetch_briefly("webhook_delivered", id=webhook_id))
        return {"status": answer.status}

    async def _send(
        self, webhook: Webhook, message_id: str, now: datetime, secrets: Sequence[bytes], body: bytes
    ) -> HttpAnswer:
        timestamp = int(now.timestamp())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": self._user_agent,
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(secrets, message_id, timestamp, body),
        }
        url = split_url(webhook.url)
        answer = await post(url, headers, body, rules=self._rules(), resolve=self._resolve, seconds=self._seconds)
        if 200 <= answer.status < 300:  # noqa: PLR2004 - the range of success
            return answer
        moved = "; redirects are not followed" if 300 <= answer.status < 400 else ""  # noqa: PLR2004 - of redirects
        wait = None if answer.retry_after is None else min(timedelta(seconds=answer.retry_after), _LONGEST_WAIT)
        message = f"the endpoint answered {answer.status}{moved}"
        raise WebhookFailed(message, status=answer.status, retry_after=wait)

    async def _job(self, context: Context, event: DeliveredEvent) -> Job:
        """The job as it was at the event. What it is now counts only while it has not moved on."""
        try:
            job = await VisibleJobs(self._open, TRUSTED).one(event.job)
        except JobNotFound:
            # It was removed before its delivery: only what was stored with the event is left.
            gone = replace(context.job.without_content(), tenant=context.job.tenant, lane=None, worker=None)
            job = replace(gone, claimed_at=None, created_at=event.at, run_after=event.at, fence=-1)
        if job.fence == event.fence:
            return job
        ended = event.at if event.state.is_final else None
        then = replace(job, id=event.job, kind=event.kind, state=event.state, attempt=event.attempt, finished_at=ended)
        return replace(then, result=None, errors=None)

    @staticmethod
    async def _note(webhook_id: int, noting: Awaitable[object]) -> bool:
        """Write down how the endpoint fares. A row that is held or refused changes nothing of the delivery itself."""
        try:
            await noting
        except (RowlockError, *TRANSIENT) as error:
            logger.warning("webhook %s: how its endpoint answered could not be written down: %s", webhook_id, error)
            return False
        return True

    async def _failed(self, webhook: Webhook, error: str, *, gives_up: bool, gone: bool) -> None:
        async with self._open().transaction() as session:
            found = await session.fetch_briefly(
                "webhook_failed", id=webhook.id, error=error, gives_up=gives_up, gone=gone, streak=STREAK
            )
            if not found or found[0]["enabled"] or not found[0]["was_enabled"]:
                return
            reason = found[0]["disabled_reason"]
            after = {"enabled": False, "disabled_reason": reason}
            await audit.record(session, TRUSTED, "webhook.disable", f"webhook:{webhook.id}", after=after)
        again = f"rowlock webhooks set {webhook.id} --enable"
        logger.warning("webhook %s is disabled: %s. Enable it with: %s", webhook.id, reason, again)
