"""Lifespans, dependencies, middleware and hooks of an application, in its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock import Context, Depends, Failure, Retry, Rowlock, Settings
from rowlock.testing import Kit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from rowlock.testing import Databases


def postage() -> int:
    return 3


class Post:
    """An application that is more than its jobs."""

    def __init__(self) -> None:
        self.app = app = Rowlock(settings=Settings(database_url="postgresql://nobody@localhost:1/nowhere"))
        self.said: list[str] = []

        @app.worker_lifespan
        async def open_office() -> AsyncIterator[None]:
            self.said.append("open")
            yield
            self.said.append("closed")

        @app.middleware
        async def stamped(ctx: Context, call: Callable[[], Awaitable[object]]) -> object:
            self.said.append(f"stamp {ctx.job.kind}")
            return await call()

        @app.job(retry=Retry(attempts=1))
        async def send(to: str, price: int = Depends(postage)) -> None:
            self.said.append(f"{to} for {price}")

        @send.on_exhausted
        async def lament(error: Failure) -> None:
            self.said.append(f"alas, {error.message}")

        self.send = send


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def kit(post: Post, databases: Databases) -> Iterator[Kit]:
    with Kit(post.app, databases) as kit:
        yield kit


def test_a_drain_goes_through_all_of_it(kit: Kit, post: Post) -> None:
    post.send.enqueue_sync("ada")
    kit.drain_sync(raise_errors=True)
    post.send.enqueue_sync("bob")
    kit.drain_sync(raise_errors=True)
    assert post.said == ["open", "stamp send", "ada for 3", "stamp send", "bob for 3"]
    kit.close()
    assert post.said[-1] == "closed"


async def test_dependencies_are_replaced_and_faults_happen_inside(kit: Kit, post: Post) -> None:
    with post.app.override(postage, lambda: 0):
        await post.send.enqueue("ada")
        await kit.drain(raise_errors=True)
    kit.fail_next(post.send, OSError("closed"))
    await post.send.enqueue("bob")
    drained = await kit.drain()
    assert drained.states == {"failed": 1, "completed": 1}
    assert drained.kinds == {"send": 1, "send/on_exhausted": 1}
    assert post.said == ["open", "stamp send", "ada for 0", "stamp send", "stamp send/on_exhausted", "alas, closed"]
