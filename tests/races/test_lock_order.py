"""No two statements that write deadlock: each pair is staged at every row that makes both of them wait."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from tests.factories import several
from tests.races.lock_order import (
    ALONE,
    ELSEWHERE,
    GROUPS,
    HELD,
    OTHER_PLANS,
    WORKERS_OWN,
    Rows,
    Stage,
    build,
    writers,
    writing,
)

from rowlock.flow.enqueue import insert
from rowlock.store.queries import files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.factories import Store
    from tests.races.lock_order import Writer


async def impatient(store: Store, *, any_plan: bool) -> Store:
    """Deadlocks are found at once, and a wait that nothing ends fails."""
    await store.execute("SET deadlock_timeout = '5ms'; SET lock_timeout = '30s'")
    if any_plan:
        await store.execute(";".join(f"SET {name} = off" for name in OTHER_PLANS))
    return store


@pytest.fixture
async def staged(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Stage, list[Writer]]]:
    monkeypatch.setattr(insert, "BATCH", 1)
    async with several(database_url, 4) as stores, several(database_url, 2, guarded=True) as own:
        await build(stores[0])
        sides = {
            "any": [await impatient(store, any_plan=True) for store in stores[2:]],
            "a worker's": [await impatient(store, any_plan=False) for store in own],
        }
        yield Stage(stores[0], stores[1], sides), writers(await Rows.of(stores[0]))


@pytest.mark.timeout(900)  # a thousand pairs, each of which waits for another session
@pytest.mark.parametrize("held", HELD)
async def test_statements_that_meet_at_a_row_never_deadlock(staged: tuple[Stage, list[Writer]], held: str) -> None:
    stage, every = staged
    waiting = [writer for writer in every if await stage.waits_at(held, writer)]
    assert waiting, f"nothing waits for the {held}: what is held there is no row of any statement"
    found = {
        f"{first.name}, then {second.name}: {said}"
        for first, second in product(waiting, waiting)
        if (said := await stage.deadlock(held, first, second)) is not None
    }
    assert not found


def test_every_statement_that_writes_is_staged_or_says_why_not() -> None:
    rows = Rows({n: (GROUPS[n % len(GROUPS)], 0) for n in range(3 * len(GROUPS))})
    named = {writer.name for writer in writers(rows)}
    assert set(writing()) - ALONE.keys() <= named
    assert ALONE.keys() | WORKERS_OWN <= set(writing())
    assert ELSEWHERE.keys() <= files().keys()
