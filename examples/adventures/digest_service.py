"""The news of a day, for learners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.dialects.postgresql import insert

from examples.adventures.database import NewsDigest

if TYPE_CHECKING:
    from datetime import date

    from sqlalchemy.ext.asyncio import AsyncSession

    from examples.adventures.outbound.ports import Writer


@dataclass(frozen=True)
class NewsDigestService:
    """Asks the writer, and keeps what it answers."""

    session: AsyncSession
    writer: Writer

    async def run(self, day: date) -> None:
        """Make the digest of a day; a second one of that day replaces the first."""
        text = await self.writer.digest(day.isoformat())
        new = insert(NewsDigest).values(day=day, text=text)
        await self.session.execute(new.on_conflict_do_update(index_elements=["day"], set_={"text": new.excluded.text}))
        await self.session.commit()
