"""Brokers for the conformance suite: one of each kind per test process, emptied before each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.delivery.brokers import RabbitMQ, Redis, running
from tests.delivery.carriers import CarrierCase, Stage, staged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with running(RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))) as broker:
        yield broker  # type: ignore[misc]  # the very same


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    with running(Redis(tmp_path / "redis")) as broker:
        yield broker  # type: ignore[misc]  # the very same


@pytest.fixture
async def stage(
    case: CarrierCase, database_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Stage]:
    broker: Redis | RabbitMQ | None = None
    if case.broker is Redis:
        broker = request.getfixturevalue("redis")
    elif case.broker is RabbitMQ:
        rabbitmq: RabbitMQ = request.getfixturevalue("rabbitmq")
        rabbitmq.empty()
        broker = rabbitmq
    async with staged(case, database_url, broker, tmp_path) as made:
        yield made
