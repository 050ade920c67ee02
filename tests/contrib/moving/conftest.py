"""An application for blocking code, as other queues are used."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rowlock import Rowlock, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def rowlock(database_url: str) -> Iterator[Rowlock]:
    app = Rowlock(database_url, settings=Settings())
    yield app
    asyncio.run(app.close())
