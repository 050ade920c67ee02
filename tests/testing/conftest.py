from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.testing.shop import Shop

from rowlock import Settings
from rowlock.testing import Databases, Kit

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def databases(server_url: str) -> Iterator[Databases]:
    """Databases on the server of these tests."""
    with Databases(server_url) as databases:
        yield databases


@pytest.fixture
def shop() -> Shop:
    return Shop(Settings(database_url="postgresql://nobody@localhost:1/nowhere"))


@pytest.fixture
def kit(shop: Shop, databases: Databases) -> Iterator[Kit]:
    with Kit(shop.app, databases) as kit:
        yield kit
