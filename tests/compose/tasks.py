"""An application whose tasks fit together, and some that do not."""

from __future__ import annotations

from typing import Any

from rowlock import (
    Approval,
    Partial,
    Rowlock,
)

app = Rowlock("postgresql://nowhere/x")


@app.job
async def extract(source: int) -> list[int]:
    return [source]


@app.job
async def clean(rows: list[int], strict: bool = False) -> dict[str, int]:
    return dict.fromkeys(map(str, rows), int(strict))


@app.job
def load(table: dict[str, int]) -> None: ...


@app.job
async def notify() -> None: ...


@app.job
async def count(rows: list[int]) -> Partial | int:
    return len(rows)


@app.job("by.tenant", gate=lambda rows, **_: f"rows:{len(rows)}")
async def gated(rows: list[int]) -> None: ...


@app.job("four", approval=Approval(four_eyes=True))
async def four(rows: list[int]) -> None: ...


def loose(step: Any) -> Any:  # noqa: ANN401 - what type checkers would refuse
    return step
