"""The REST door in this process, on a real database, asked as one role or another."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
from pydantic import SecretStr  # noqa: TC002 - a handler's annotation, read at run time
from tests.factories import Store, opened

from rowlock import Context, Retry, Rowlock
from rowlock.api import RowlockAPI
from rowlock.model.access import ALL, Permission, Principal
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.requests import HTTPConnection

    from rowlock import ItemContext

READER = frozenset({Permission.READ})
ADMIN = Principal("root", permissions=ALL)


class AsNamed:
    """Authenticates by a header that names one of these principals."""

    def __init__(self) -> None:
        self.known = {"root": ADMIN, "boss": replace(ADMIN, subject="boss")}

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        return self.known.get(connection.headers.get("x-who", ""))


def with_token(api: RowlockAPI) -> dict[str, str]:
    """The header that an API without authentication asks for."""
    assert api.loopback is not None
    return {"Authorization": f"Bearer {api.loopback.token}"}


@dataclass
class Rest:
    """The door, its application, a client for each principal, and the store behind it."""

    app: Rowlock
    api: RowlockAPI
    store: Store
    people: AsNamed
    base: str = "http://door/api/v1"

    def client(self, who: str | None = "root", base: str | None = None) -> httpx.AsyncClient:
        headers = {} if who is None else {"X-Who": who}
        transport = httpx.ASGITransport(self.api.asgi, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=base or self.base, headers=headers)

    def knows(self, principal: Principal) -> httpx.AsyncClient:
        self.people.known[principal.subject] = principal
        return self.client(principal.subject)

    async def submit(self, kind: str = "greet", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        args = more.pop("args", {"name": "Ada"} if kind == "greet" else {})
        async with self.client() as client:
            answer = await client.post("/jobs", json={"kind": kind, "args": args, **more})
        assert answer.status_code in (200, 202), answer.text
        return dict(answer.json())


def declare(app: Rowlock) -> Rowlock:
    @app.job
    async def greet(name: str, times: int = 1) -> str:
        """Say hello."""
        return " ".join([f"Hello, {name}!"] * times)

    @app.job(retry=Retry(attempts=1))
    async def explode() -> None:
        raise ValueError("out of paper")

    @app.job(approval=True, on_worker_lost="hold")
    async def pay(amount: int) -> int:
        return amount

    @app.job
    async def login(user: str, password: SecretStr) -> None: ...

    @app.job
    async def positional(first: int, /, second: int) -> int:
        return first + second

    @app.job(lane="front")
    async def walk(ctx: Context, steps: int) -> None:
        async with ctx.phase("walk", total=steps) as phase:
            await phase.advance(message="one")

    @app.job
    async def sort_out(ctx: Context, names: list[str]) -> None:
        async def one(_item: ItemContext, name: str) -> None:
            ctx.log.info("sorting %s", name)
            if name == "b":
                raise ValueError("b is bad")

        await ctx.items(names, one, limit=1)

    return app


@contextlib.contextmanager
def running(api: RowlockAPI, port: int = 0) -> Iterator[str]:
    """The door on a port of this machine, in a thread with an event loop of its own; its address."""
    server = uvicorn.Server(uvicorn.Config(api.asgi, port=port, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
            assert thread.is_alive()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
async def make_rest(database_url: str) -> AsyncIterator[Callable[..., Rest]]:
    apps: list[Rowlock] = []
    async with opened(database_url) as store:

        def make(**more: Any) -> Rest:  # noqa: ANN401 - RowlockAPI's
            app = declare(Rowlock(database_url, settings=Settings(shutdown_after=timedelta(seconds=3))))
            apps.append(app)
            people = AsNamed()
            return Rest(app, RowlockAPI(app, **{"auth": people, **more}), store, people)

        yield make
        for app in apps:
            await app.close()


@pytest.fixture
def rest(make_rest: Callable[..., Rest]) -> Rest:
    return make_rest()
