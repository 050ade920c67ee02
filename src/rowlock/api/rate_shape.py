"""A rate over the wire."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rowlock.api.shapes import Body
from rowlock.model.rate import Rate

Amount = Annotated[int, Field(ge=1, le=1_000_000_000)]
Per = Annotated[float, Field(ge=0.001, le=366 * 86_400)]


class RateShape(Body):
    """amount starts per per_s seconds: a bucket that holds burst (null: amount), or a window that never has more."""

    amount: Amount
    per_s: Per = 1
    burst: Amount | None = None
    window: bool = False

    @classmethod
    def of(cls, rate: Rate) -> RateShape:
        """From the value."""
        burst = None if rate.window else rate.burst
        return cls(amount=rate.amount, per_s=rate.per.total_seconds(), burst=burst, window=rate.window)

    def rate(self) -> Rate:
        """The value."""
        return Rate(self.amount, self.per_s, burst=self.burst, window=self.window)
