"""rowlock serve, as operators start it: a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import socket
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.conftest import cli, forks
from tests.cli.serving import serve_process
from tests.waiting import PATIENCE, eventually, in_time

from rowlock import Rowlock
from rowlock.api.server import BackgroundServer
from rowlock.model import token_text
from rowlock.settings import Settings
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx
    from tests.cli.conftest import Cli

pytestmark = pytest.mark.timeout(240)


__all__ = ["cli", "forks"]  # fixtures of the command line's tests


@contextlib.asynccontextmanager
async def serving(cli: Cli, *arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx.AsyncClient]]:
    async with serve_process(cli, *arguments) as (process, client, _link):
        yield process, client


async def test_it_serves_and_leaves_when_told(cli: Cli) -> None:
    async with serving(cli) as (process, client):
        made = await client.post("/jobs", json={"kind": "greet", "args": {"name": "Ada"}})
        assert made.status_code == 202, made.text
        assert (await client.get(made.headers["location"].removeprefix("/api/v1"))).json()["state"] == "queued"
        metrics = await client.get(str(client.base_url.copy_with(path="/metrics")))
        assert metrics.status_code == 200, metrics.text
        told = {family.name: family for family in text_string_to_metric_families(metrics.text)}
        assert [sample.value for sample in told["rowlock_up"].samples] == [1]
        assert {(sample.labels["state"], sample.value) for sample in told["rowlock_jobs"].samples} >= {("queued", 1)}
        features = (await client.get("/features")).json()
        assert (features["metrics"], features["schema_version"]) == (True, migrate.newest())
        port = str(client.base_url.port)
        taken = await cli("serve", "--app", "tasks:app", "--port", port)
        assert (taken.code, taken.out) == (2, "")
        assert f"port {port}: Address already in use" in taken.err
        process.send_signal(signal.SIGTERM)
        assert await in_time(process.wait()) == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - to be refused
async def test_a_wide_bind_without_authentication_is_refused(cli: Cli, host: str) -> None:
    refused = await cli("serve", "--app", "tasks:app", "--host", host)
    assert refused.code == 2
    assert "--insecure-no-auth" in refused.err


async def test_read_only_and_behind_a_proxy_that_takes_a_prefix_away(cli: Cli) -> None:
    async with serving(cli, "--read-only", "--insecure-no-auth", "--host", "0.0.0.0") as (_, client):  # noqa: S104
        refused = await client.post("/jobs", json={"kind": "greet", "args": {"name": "Ada"}})
        assert (refused.status_code, refused.json()["code"]) == (403, "read-only")
        assert (await client.get("/kinds", headers={"Host": "jobs.example"})).status_code == 200


async def test_with_tokens_everybody_may_be_served(cli: Cli) -> None:
    made = (await cli("tokens", "create", "ci", "--role", "user", "--json")).json
    async with serving(cli, "--host", "0.0.0.0", "--auth", "tokens") as (_, client):  # noqa: S104
        assert (await client.get("/me")).status_code == 401
        text = next(value for value in made.values() if str(value).startswith("rlk_"))
        mine = await client.get("/me", headers={"Authorization": f"Bearer {text}"})
        assert (mine.status_code, mine.json()["roles"]) == (200, ["user"])
    wrong = await cli("serve", "--app", "tasks:app", "--auth", "tasks:number")
    assert (wrong.code, "got 3, which has no method authenticate" in wrong.err) == (2, True), wrong.err


@pytest.mark.parametrize(
    ("arguments", "address", "cookie"),
    [((), "127.0.0.1", "rowlock_session="), (("--trusted-proxy", "127.0.0.0/8"), "192.0.2.7", "__Host-rowlock=")],
)
async def test_only_a_trusted_proxy_says_for_whom_it_asks(
    cli: Cli, arguments: tuple[str, ...], address: str, cookie: str
) -> None:
    made = (await cli("tokens", "create", "ci", "--role", "operator", "--json")).json
    async with serving(cli, "--auth", "tokens", *arguments) as (_, client):
        client.headers.update({"X-Forwarded-For": "evil-text <b>, 192.0.2.7", "X-Forwarded-Proto": "https"})
        same = {"Sec-Fetch-Site": "same-origin"}
        session = await client.post("/auth/login", json={"token": made["text"]}, headers=same)
        assert session.headers["set-cookie"].startswith(cookie), session.headers
        assert ("; Secure" in session.headers["set-cookie"]) is (cookie == "__Host-rowlock=")
        # Ever new addresses do not help to guess.
        statuses = []
        for n in range(12):
            told = {"X-Forwarded-For": f"192.0.2.{n}, 192.0.2.7", "Authorization": f"Bearer {forged(made['text'])}"}
            statuses.append((await client.get("/me", headers=told)).status_code)
        assert statuses == [401] * 10 + [429] * 2
        good = {"Authorization": f"Bearer {made['text']}"}
        assert (await client.get("/me", headers=good)).status_code == 200
    lines = (await cli("audit", "ls", "--json")).out
    assert f'"{address}"' in lines
    assert "evil" not in lines


def forged(text: str) -> str:
    """Another secret under the id of a token."""
    prefix, token_id, _ = text.split("_")
    body = f"{prefix}_{token_id}_{token_text.make()[0].split('_')[2]}"[:-6]
    return body + token_text._check(body)


async def test_a_proxy_without_authentication_is_a_mistake(cli: Cli) -> None:
    wrong = await cli("serve", "--app", "tasks:app", "--trusted-proxy", "10.0.0.0/8")
    assert (wrong.code, "--trusted-proxy needs --auth" in wrong.err) == (2, True), wrong.err
    wrong = await cli("serve", "--app", "tasks:app", "--auth", "tokens", "--trusted-proxy", "proxy.example")
    assert (wrong.code, "'proxy.example' is not a trusted proxy" in wrong.err) == (2, True), wrong.err


async def test_it_starts_without_its_database_and_recovers(cli: Cli, tmp_path: Path, database_url: str) -> None:
    parts = urlsplit(database_url)
    sockets = parse_qs(parts.query)["host"][0]
    elsewhere = tmp_path / "sockets"
    cli.environment["ROWLOCK_DATABASE_URL"] = database_url.replace(quote(sockets), quote(str(elsewhere)))
    async with serving(cli) as (process, client):
        away = await client.get("/admin/workers/lanes")
        assert (away.status_code, away.json()["code"], away.headers["retry-after"]) == (503, "unavailable", "5")
        ready = str(client.base_url.copy_with(path="/readyz"))
        assert (await client.get(ready)).status_code == 503
        elsewhere.symlink_to(sockets)

        async def recovered() -> bool:
            return (await client.get(ready)).status_code == 200

        await eventually(recovered)
        assert (await client.get("/admin/workers/lanes")).status_code == 200
        process.send_signal(signal.SIGINT)
        assert await in_time(process.wait()) == 0


class Latecomer:
    """A connection that was being let in when the server told everybody to leave."""

    def __init__(self, connections: set[object], *, after: int) -> None:
        self._connections, self._after = connections, after

    def shutdown(self) -> None:
        self._connections.discard(self)
        if self._after:
            self._connections.add(Latecomer(self._connections, after=self._after - 1))


async def test_whoever_comes_while_a_server_leaves_does_not_hold_it_up(database_url: str) -> None:
    app = Rowlock(database_url, settings=Settings())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = BackgroundServer(app, listening)
        server.config.timeout_graceful_shutdown = 3600
        async with asyncio.timeout(PATIENCE), server.serving():
            await eventually(functools.partial(_started, server))
            connections = cast("set[object]", server.server_state.connections)
            connections.add(Latecomer(connections, after=3))
    await app.close()


async def _started(server: BackgroundServer) -> bool:
    return server.started
