"""The handler that every worker has for deliveries. It imports the sender with the first one: most send none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rowlock.errors import WebhookRefused
from rowlock.flow.kinds.codec import Codec
from rowlock.flow.kinds.handler import Handler
from rowlock.flow.progress.context import Context
from rowlock.model.kind import Kind
from rowlock.model.retry import Retry
from rowlock.model.webhook import KIND

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock.model.webhook_rules import WebhookRules
    from rowlock.store.database import Database

RETRY: Final = Retry(attempts=8, minimum="5s", multiplier=8, maximum="10h", never=(WebhookRefused,), losses="unlimited")
"""About a day: again after 5 s, 40 s, 5 min, 43 min, 6 h, 10 h and 10 h. A refused address fails at once.

Trouble with the database is no reason to give a message up.
"""
_ARGUMENTS_LIMIT: Final = 100_000


def delivery_handler(
    database: Callable[[], Database],
    rules: Callable[[], WebhookRules],
    **options: Any,  # noqa: ANN401 - those of Deliveries
) -> Handler:
    """Make the handler. Its parameters are the names that the database writes; job 0: a test of the endpoint."""

    async def deliver(  # noqa: PLR0917 - as above
        ctx: Context,
        webhook: int,
        at: str,
        job: int = 0,
        fence: int = 0,
        kind: str = "",
        state: str = "",
        attempt: int = 0,
    ) -> Any:  # noqa: ANN401 - read by pydantic's core alone, without pydantic
        from rowlock.webhooks.delivery import DeliveredEvent, Deliveries  # noqa: PLC0415 - see the top

        event = DeliveredEvent.of(job, fence, kind, state, attempt, at) if job else None
        return await Deliveries(database, rules, **options).deliver(ctx, webhook, event, DeliveredEvent.moment(at))

    definition = Kind(KIND, retry=RETRY, executor="loop", on_worker_lost="retry")
    codec = Codec.of(deliver, context_types=(Context,), kind=definition, limit=_ARGUMENTS_LIMIT)
    return Handler(definition, codec, deliver)
