"""Connections as they are: passwords that change, password and service files, certificates, several hosts."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
import trustme
from tests.tcp_servers import HBA, PASSWORD, TcpServer, standby_of, tcp_server
from tests.waiting import eventually

from rowlock import ConfigurationError, Rowlock
from rowlock.errors import DatabaseUnreachable
from rowlock.store import database as module
from rowlock.store.database import Database
from rowlock.store.driver.hosts import Hosts
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # servers that start, stop and follow each other


@pytest.fixture(scope="module")
def server() -> Iterator[TcpServer]:
    with tcp_server() as made:
        asyncio.run(migrate.upgrade(made.url()))
        yield made


async def pings(url: str, **options: Any) -> int:  # noqa: ANN401 - Database's
    connection = await Database(url, **options).connect("test")
    try:
        return int(await connection.fetchval("SELECT 7"))
    finally:
        await connection.close()


# --- credentials -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_password_comes_from_a_function_for_every_connection(server: TcpServer, blocking: bool) -> None:
    asked: list[str] = []

    def give() -> str:
        asked.append(PASSWORD)
        return PASSWORD

    async def give_later() -> str:
        return give()

    async with Rowlock(server.url("wrong"), password=give if blocking else give_later) as app:

        @app.job
        async def greet(name: str) -> str:
            return name

        job = await greet.enqueue("ada")
        async with app.worker():
            assert await job.wait(timeout=60) == "ada"
        assert await app.upgrade() == []
    assert len(asked) >= 4


async def test_a_rotated_password_reaches_a_running_worker(server: TcpServer) -> None:
    current = PASSWORD
    async with Rowlock(server.url(None), password=lambda: current) as app:

        @app.job
        async def greet(name: str) -> str:
            return name

        async with app.worker():
            assert await (await greet.enqueue("ada")).wait(timeout=60) == "ada"
            with server.session() as session:
                session.execute("ALTER ROLE rowlock PASSWORD 'second'")
                try:
                    current = "second"
                    session.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE datname = current_database() AND application_name LIKE 'rowlock:%'"
                    )

                    async def runs_again() -> bool:
                        try:
                            job = await greet.options(idempotency_key="again").enqueue("eve")
                            return await job.wait(timeout=30) == "eve"
                        except DatabaseUnreachable:  # a connection that was ended meanwhile
                            return False

                    await eventually(runs_again)
                finally:
                    session.execute(f"ALTER ROLE rowlock PASSWORD '{PASSWORD}'")


async def test_a_function_that_fails_is_an_outage_and_one_that_gives_no_text_is_a_mistake(server: TcpServer) -> None:
    def broken() -> str:
        raise OSError("the token service is away")

    with pytest.raises(DatabaseUnreachable, match="the token service is away"):
        await pings(server.url(), password=broken)
    with pytest.raises(ConfigurationError, match=r"must return a string; it returned a <class 'bytes'>"):
        await pings(server.url(), password=lambda: b"secret")
    with pytest.raises(ConfigurationError, match="takes a string, or a function"):
        Rowlock(server.url(), password=7)  # type: ignore[arg-type]


async def test_a_password_file_is_read_for_every_connection(
    server: TcpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "pgpass"
    written.touch(0o600)
    monkeypatch.setenv("PGPASSFILE", str(written))
    with pytest.raises(DatabaseUnreachable):
        await pings(server.url(None))
    written.write_text(f"127.0.0.1:*:rowlock:rowlock:{PASSWORD}\n")
    assert await pings(server.url(None)) == 7


async def test_a_service_file_names_the_server(
    server: TcpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "pg_service.conf"
    lines = {"host": "127.0.0.1", "port": server.port, "user": "rowlock", "dbname": "rowlock", "password": PASSWORD}
    written.write_text("[shop]\n" + "".join(f"{name}={value}\n" for name, value in lines.items()))
    monkeypatch.setenv("PGSERVICEFILE", str(written))
    assert await pings("postgresql://?service=shop") == 7


# --- certificates ----------------------------------------------------------------------------------------------------


def with_encryption() -> Path:
    """The server's programs of the operating system: those of the embedded package are built without OpenSSL."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        pytest.skip("no PostgreSQL that speaks TLS is installed (Debian: postgresql)")
    return found[-1].parent


async def test_certificates_of_server_and_client(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    own = authority.issue_cert("localhost")
    person = authority.issue_cert(common_name="rowlock")
    authority.cert_pem.write_to_path(str(tmp_path / "root.pem"))
    stranger.cert_pem.write_to_path(str(tmp_path / "stranger.pem"))
    person.cert_chain_pems[0].write_to_path(str(tmp_path / "client.pem"))
    person.private_key_pem.write_to_path(str(tmp_path / "client.key"))
    (tmp_path / "client.key").chmod(0o600)
    with tcp_server(programs=with_encryption()) as server:
        server.stop()
        certificate = server.write("server.crt", own.cert_chain_pems[0].bytes())
        key = server.write("server.key", own.private_key_pem.bytes())
        root = server.write("root.crt", authority.cert_pem.bytes())
        files = {"ssl_cert_file": str(certificate), "ssl_key_file": str(key), "ssl_ca_file": str(root)}
        server.settings = {"ssl": "on", **files}
        server.write("data/pg_hba.conf", "local all all trust\nhostssl all all 127.0.0.1/32 cert\n")
        server.start()
        there = server.url(None, "localhost")
        with_client = f"sslcert={quote(str(tmp_path / 'client.pem'))}&sslkey={quote(str(tmp_path / 'client.key'))}"
        for mode in ("require", "verify-ca", "verify-full"):
            url = f"{there}?sslmode={mode}&sslrootcert={quote(str(tmp_path / 'root.pem'))}&{with_client}"
            assert await pings(url) == 7
        refused = {
            "without encryption": f"{there}?sslmode=disable",
            "without a certificate of its own": f"{there}?sslmode=verify-full&sslrootcert={tmp_path / 'root.pem'}",
            "by another authority": f"{there}?sslmode=verify-ca&sslrootcert={tmp_path / 'stranger.pem'}&{with_client}",
            "under another name": (
                f"{server.url(None)}?sslmode=verify-full&sslrootcert={tmp_path / 'root.pem'}&{with_client}"
            ),
        }
        for why, url in refused.items():
            with pytest.raises(DatabaseUnreachable):
                print(why, await pings(url))  # noqa: T201 - shown if it is not refused


# --- several hosts ---------------------------------------------------------------------------------------------------


async def test_a_worker_follows_from_a_dead_primary_to_the_promoted_standby() -> None:
    with tcp_server(hba=HBA) as primary, standby_of(primary) as standby:
        await migrate.upgrade(primary.url())
        both = f"postgresql://rowlock:{PASSWORD}@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/rowlock"
        async with Rowlock(both) as app:

            @app.job
            async def greet(name: str) -> str:
                return name

            async with app.worker():
                # The standby comes first and does not accept writes: the primary is used.
                assert await (await greet.enqueue("ada")).wait(timeout=60) == "ada"
                await caught_up(primary, standby)
                primary.stop()
                standby.promote()

                async def goes_on() -> bool:
                    try:
                        return await (await greet.enqueue("eve")).wait(timeout=10) == "eve"
                    except DatabaseUnreachable:
                        return False

                await eventually(goes_on)


async def caught_up(primary: TcpServer, standby: TcpServer) -> None:
    with primary.session() as one, standby.session() as other:

        async def same() -> bool:
            (position,) = one.execute("SELECT pg_current_wal_lsn()::text").fetchone() or ("",)
            row = other.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [position]).fetchone()
            return bool(row and row[0])

        await eventually(same)


async def test_a_host_that_never_answers_does_not_hide_the_next(
    server: TcpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 4.0)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()  # accepts, and says nothing
        host = f"127.0.0.1:{mute.getsockname()[1]},127.0.0.1:{server.port}"
        assert await pings(f"postgresql://rowlock:{PASSWORD}@{host}/rowlock") == 7


@pytest.mark.parametrize(
    ("url", "then"),
    [
        ("postgresql://u:p@a:1,b:2/n", "postgresql://u:p@b:2,a:1/n?target_session_attrs=read-write"),
        (
            "postgresql://u@/n?host=a%3A1%2Cb%3A2&target_session_attrs=any",
            "postgresql://u@/n?host=b%3A2%2Ca%3A1&target_session_attrs=any",
        ),
        ("postgresql://u:p@a:1/n", "postgresql://u:p@a:1/n"),
    ],
)
def test_the_hosts_of_a_url_take_turns(url: str, then: str) -> None:
    hosts = Hosts(url)
    hosts.pass_on()
    assert hosts.url == then


@pytest.mark.parametrize("url", ["postgresql://u@a:1,b:0/n", "postgresql://u@a:1,b:x/n"])
def test_a_port_of_one_of_several_hosts_is_checked(url: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Database(url)


# --- a replica -------------------------------------------------------------------------------------------------------


async def test_searches_and_statistics_are_read_on_the_replica_and_without_it_on_the_primary(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with tcp_server() as primary, standby_of(primary) as standby:
        await migrate.upgrade(primary.url())
        monkeypatch.setenv("ROWLOCK_REPLICA_URL", standby.url())
        monkeypatch.setenv("ROWLOCK_REPLICA_LAG", "2s")
        async with Rowlock(primary.url()) as app:

            @app.job
            async def greet(name: str) -> str:
                return name

            await greet.enqueue("ada")
            await caught_up(primary, standby)
            asked = (
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'rowlock:client'"
            )
            assert [job.kind for job in (await app.jobs.search("kind:greet")).items] == ["greet"]
            await every_statistic(app)
            with standby.session() as session:
                assert (session.execute(asked).fetchone() or (0,))[0] > 0
                session.execute("SELECT pg_wal_replay_pause()")
                await greet.enqueue("eve")
                assert len((await app.jobs.search("kind:greet")).items) == 1, "the replica lags, within what is allowed"

                async def seen_on_the_primary() -> bool:
                    with caplog.at_level(logging.WARNING, "rowlock"):
                        return len((await app.jobs.search("kind:greet")).items) == 2

                await eventually(seen_on_the_primary)
                assert "reads go to the primary: the replica cannot be used: it is behind" in caplog.text
                session.execute("SELECT pg_wal_replay_resume()")
            await caught_up(primary, standby)
            await eventually(lambda: used_again(app))
            standby.stop()
            assert len((await app.jobs.search("kind:greet")).items) == 2
            await every_statistic(app)
            # An order never goes to the replica.
            standby.start()
            await eventually(lambda: used_again(app))
            job = await greet.enqueue("ann")
            assert (await app.jobs.cancel(job.id)).state == "cancelled"
            assert (await app.jobs.get(job.id)).state == "cancelled"
            # Without the primary, statistics are still there.
            await caught_up(primary, standby)
            primary.stop()
            assert app._replica is not None
            app._replica._checked_at = (
                -math.inf
            )  # the next read looks whether the replica lags, which nothing can say now
            assert (await app.stats.overview()).window is not None


async def used_again(app: Rowlock) -> bool:
    await app.stats.backlog()
    replica = app._replica
    return replica is not None and replica._serves


async def every_statistic(app: Rowlock) -> None:
    stats = app.stats
    await asyncio.gather(stats.overview(), stats.panel(), stats.backlog(), stats.running(), stats.slow("1m"))
    await asyncio.gather(stats.failures(), stats.tenants(), stats.throughput(), stats.totals(), stats.kind("greet"))
    await stats.series()
    await app.jobs.list()
