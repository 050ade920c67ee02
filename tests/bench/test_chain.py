from __future__ import annotations

from typing import TYPE_CHECKING

from bench import chain
from rowlock import Settings

if TYPE_CHECKING:
    import pytest


async def test_every_way_is_measured(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "WARM", 1)
    monkeypatch.setattr(chain, "OTHERS", 20)
    found = await chain.measure(Settings(database_url=database_url), 2)
    assert [len(gaps) for gaps in found.values()] == [2, 2, 2, 1, 1, 1]
    assert all(gap > 0 for gaps in found.values() for gap in gaps)
