"""An application as its users write it, for the tests of the kit."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID  # noqa: TC003 - read by the codec

from pydantic import BaseModel, SecretStr

from rowlock import Context, Retry, Rowlock, Snooze, SyncContext

if TYPE_CHECKING:
    from rowlock import Settings


NOTHING = SecretStr("none")


class Order(BaseModel):
    number: int
    lines: list[str] = []


class Shop:
    """Kinds of every sort; `said` is what their handlers did."""

    def __init__(self, settings: Settings) -> None:
        self.app = app = Rowlock(settings=settings)
        self.said: list[str] = []
        said = self.said.append

        @app.job(lane="reports", retry=Retry(attempts=20, minimum="30s", multiplier=2, maximum="3 days", jitter="0s"))
        async def report(ctx: Context, org_id: int, *, full: bool = False) -> str:
            async with ctx.phase("pages", total=2) as pages:
                await pages.advance()
            said(f"report {org_id} {ctx.job.attempt}")
            return f"report of {org_id}{' in full' if full else ''}"

        @app.job(priority=5)
        def mail(ctx: SyncContext, to: str) -> None:
            ctx.progress(1, 1)
            said(f"mail {to}")

        @app.job
        async def ship(order: Order, customer: UUID, password: SecretStr = NOTHING) -> None:
            said(f"ship {order.number} {customer} {len(password.get_secret_value())}")
            await mail.enqueue(to=str(order.number))

        @app.job
        async def again(n: int) -> None:
            await again.enqueue(n=n + 1)

        @app.job(retry=Retry(attempts=1))
        async def broken(n: int) -> None:
            message = f"no {n}"
            raise LookupError(message)

        @app.job
        async def snoozing(n: int) -> Snooze | None:
            said(f"snoozing {n}")
            return Snooze("1h") if len(self.said) < n else None

        self.report, self.mail, self.ship, self.again, self.broken = report, mail, ship, again, broken
        self.snoozing = snoozing
