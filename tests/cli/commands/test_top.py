"""rowlock top: the pictures as values, the keys and the terminal in a pseudo terminal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from typing import TYPE_CHECKING, Any, Self

import pytest
from tests.factories import Store, opened
from tests.waiting import eventually, in_time, let_others_run, nothing_happens_for, until

from rowlock.cli.commands.top import Top, read_data
from rowlock.cli.screen import panes, terminal
from rowlock.cli.screen.panes import Pane, Row, TopData, ViewState, frame, shares
from rowlock.cli.screen.terminal import Terminal, keys
from rowlock.errors import DatabaseUnreachable
from rowlock.model import ids
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import psycopg
    from tests.cli.conftest import Cli

    from rowlock import Rowlock

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LEFT = "\x1b[?1049l"


# --- values ----------------------------------------------------------------------------------------------------------


def test_keys_are_told_from_what_a_terminal_sends() -> None:
    assert keys("jk\t\x1b[A\x1bOB\x1b[5~\x1b[Zü?") == ["j", "k", "tab", "up", "down", "page up", "back tab", "ü", "?"]
    assert keys("\x1b") == ["escape"]
    assert keys("\x1b[200~c\x1b[1;5C\x01") == ["c"]  # sequences nobody knows are no letters


@pytest.mark.parametrize(
    ("needs", "room", "focus", "given"),
    [
        ([3, 3, 3, 3], 20, 0, [3, 3, 3, 3]),
        ([2, 9, 30, 9], 20, 2, [2, 5, 8, 5]),
        ([2, 9, 30, 9], 20, 1, [2, 8, 5, 5]),
        ([30, 30, 30, 30], 22, 3, [5, 5, 5, 7]),
    ],
)
def test_room_is_shared_and_the_rest_goes_to_the_focus(
    needs: list[int], room: int, focus: int, given: list[int]
) -> None:
    assert shares(needs, room, focus) == given


def test_a_selection_stays_with_its_row_and_falls_to_the_neighbour_when_that_is_gone() -> None:
    view, three = ViewState(), [Row(n, (str(n),)) for n in (1, 2, 3)]
    view.move(three, 1)
    assert view.selected(Pane.JOBS, three) == 1
    assert view.selected(Pane.JOBS, [Row(9, ("9",)), *three]) == 2
    assert view.selected(Pane.JOBS, [three[0], three[2]]) == 1
    view.move(three, 100)
    assert view.selected(Pane.JOBS, three) == 2
    assert view.selected(Pane.JOBS, []) == 0


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as one:
        yield one


async def running(store: Store) -> tuple[int, int, int]:
    """A lane, a worker, a running job with a phase, a pending and a queued one; the jobs' numbers."""
    await store.lane("default", kinds=["*"], slots=4)
    worker, job = await store.worker("clerk"), await store.enqueue("render", refs='{"project": 7}')
    (claim,) = await store.claim(worker, job)
    await store.fetch(
        "report_progress",
        ids=[claim.job_id],
        fences=[claim.fence],
        phases=["editions"],
        progress=['{"done": 3, "total": 4, "message": "main\\u001b[2J"}'],
        passed=[None],
        checkpoints=[None],
        cursors=[None],
    )
    pending = await store.enqueue("pay", approval=True, submitted_by="ada")
    return job, pending, await store.enqueue("wait")


@pytest.mark.parametrize(("width", "height"), [(160, 50), (80, 24), (40, 8), (20, 4)])
async def test_a_picture_has_the_size_of_the_screen(app: Rowlock, store: Store, width: int, height: int) -> None:
    await running(store)
    look = await read_data(app, "1m")
    for view in (
        ViewState(),
        ViewState(pane=Pane.LANES, wanted="x"),
        ViewState(helping=True),
        ViewState(away="x" * 99, paused=True),
    ):
        lines = frame(look, view, width, height, "postgresql://host/name")
        assert len(lines) == height
        assert all(line.cell_len <= width for line in lines)
        assert "\x1b" not in "".join(line.plain for line in lines)
    assert len(frame(None, ViewState(), width, height, "")) == height


async def test_a_wide_picture_tells_everything(app: Rowlock, store: Store) -> None:
    job, pending, _ = await running(store)
    text = "\n".join(line.plain for line in frame(await read_data(app, "1m"), ViewState(), 160, 30, "here"))
    assert re.search(r"running 1/4 .* due 1 \(oldest \d s\)  pending 1", text)
    assert re.search(r"default +open +1 +4 +██░░░░░░░░ +1 +1 +0 +\d s +\*", text)
    assert re.search(r"clerk +up +1 +all +h", text)
    assert re.search(
        rf"{ids.encode(job)} +render +default +clerk +1 +0 s +████████░░ +editions 3/4 main\\x1b\[2J", text
    )
    assert re.search(rf"{ids.encode(pending)} +pay +\d s +awaits approval, submitted by ada", text)
    assert re.search(r"wait +default +1 +0 +\d s", text)


async def test_an_empty_database_says_what_to_do(app: Rowlock) -> None:
    text = "\n".join(line.plain for line in frame(await read_data(app, "1m"), ViewState(), 80, 24, "here"))
    assert "No workers. Start one: rowlock worker" in text
    assert "Nothing runs, and nothing awaits approval." in text


async def test_rows_beyond_the_screen_are_counted_and_the_selected_one_is_shown(app: Rowlock, store: Store) -> None:
    worker = await store.worker()
    await store.claim(worker, *[await store.enqueue() for _ in range(40)])
    look, view = await read_data(app, "1m"), ViewState()
    view.move(panes.rows(Pane.JOBS, look), 30)
    lines = [line.plain for line in frame(look, view, 80, 24, "here")]
    assert any(re.match(r"JOBS \d+-\d+/40 ", line) for line in lines)
    assert any(panes.rows(Pane.JOBS, look)[30].cells[0] in line for line in lines)


# --- keys, without a terminal ----------------------------------------------------------------------------------------


class Bench(Top):
    """A Top whose keys are pressed by hand and whose screen is never drawn."""

    async def looked(self) -> Self:
        await self._read_once()
        return self

    async def done(self) -> str:
        await asyncio.gather(*self._orders)
        await self._read_once()
        return self._view.note


@pytest.fixture
def bench(app: Rowlock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield Bench(app, 1.0, "1m")
    os.close(ours)


async def test_destructive_keys_ask_first_and_anything_but_y_does_nothing(bench: Bench, store: Store) -> None:
    job, *_ = await running(store)
    await bench.looked()
    for key in "cs":
        for answer in ("n", "escape", "enter", key):
            bench.press(key)
            assert bench._view.question is not None
            assert ids.encode(job) in bench._view.question
            bench.press(answer)
            assert await bench.done() == "nothing was done"
    row = await store.row(job)
    assert (row["state"], row["cancel_requested"]) == ("running", False)


async def test_the_order_is_for_the_job_the_question_named(bench: Bench, store: Store) -> None:
    """Whatever moves between the question and the answer."""
    job, *_ = await running(store)
    other = await store.enqueue()
    await bench.looked()
    bench.press("c")
    await store.claim(await store.worker(), other)
    await store.execute("UPDATE {s}.jobs SET claimed_at = claimed_at - interval '1 hour' WHERE id = $1", other)
    await bench.looked()
    bench.press("y")
    assert await bench.done() == f"{ids.encode(job)} is running, cancel requested"
    assert (await store.row(job))["cancel_requested"]
    assert not (await store.row(other))["cancel_requested"]


async def test_orders_of_each_pane(bench: Bench, store: Store) -> None:
    job, pending, _ = await running(store)
    await bench.looked()

    async def pressed(*keys: str) -> str:
        for key in keys:
            bench.press(key)
        return await bench.done()

    assert await pressed("j", "a", "y") == f"{ids.encode(pending)} is queued"
    assert await pressed("home", "s", "y") == f"{ids.encode(job)} is cancelled"
    assert await pressed("d") == "nothing is selected"
    assert await pressed("tab", "d") == "d is for a lane or a worker; tab changes the pane"
    assert await pressed("back tab", "back tab", "d", "y") == "worker clerk is draining"
    assert await pressed("r") == "r is for a lane; tab changes the pane"
    assert await pressed("back tab", "d", "y") == "lane default is drained"
    assert await pressed("r") == "lane default is open"
    assert await pressed("/", "z", "z", "enter", "d") == "nothing is selected"
    acts = await store.value("SELECT array_agg(verb ORDER BY id) FROM {s}.job_acts WHERE by_whom IS NOT NULL")
    assert acts == ["approve", "stop"]


async def test_an_order_that_is_refused_says_why(bench: Bench, store: Store) -> None:
    job, *_ = await running(store)
    await bench.looked()
    bench.press("a")
    bench.press("y")
    assert "is running" in await bench.done()
    await store.stop(job)
    bench.press("c")
    bench.press("y")


async def test_filter_pause_help_and_quit(bench: Bench, store: Store) -> None:
    await running(store)
    await bench.looked()
    for key in ("/", "p", "a", "x", "backspace"):
        bench.press(key)
    assert [row.cells[1] for row in bench._rows()] == ["pay"]
    bench.press("escape")
    assert len(bench._rows()) == 2
    bench.press("p")
    assert bench._view.paused
    await store.enqueue("pay", approval=True)
    await bench.looked()
    assert len(bench._rows()) == 2
    bench.press("p")
    await bench.looked()
    assert len(bench._rows()) == 3
    bench.press("?")
    bench.press("q")  # closes the help
    assert (bench._view.helping, bench._over) == (False, False)
    bench.press("q")
    assert bench._over


async def test_a_database_that_is_away_is_told_until_it_answers(
    bench: Bench, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running(store)
    await bench.looked()

    async def away(*_: object) -> TopData:
        raise DatabaseUnreachable("gone")

    with monkeypatch.context() as patched:
        patched.setattr("rowlock.cli.commands.top.read_data", away)
        await bench.looked()
        assert bench._view.away == "the database does not answer"
        assert len(bench._rows()) == 2  # the last picture stays
    await bench.looked()
    assert bench._view.away is None


# --- the terminal ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def terminals(columns: int = 80, lines: int = 24) -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    resize(theirs, columns, lines)
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def resize(fd: int, columns: int, lines: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


async def test_the_terminal_is_restored_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    pressed: list[str] = []
    with terminals() as (ours, theirs):
        before = termios.tcgetattr(theirs)
        with os.fdopen(os.dup(theirs)) as stdin, os.fdopen(os.dup(theirs), "w") as stdout:
            monkeypatch.setattr(sys, "stdin", stdin)
            monkeypatch.setattr(sys, "stdout", stdout)
            held = Terminal(pressed.append, lambda: None)
            with pytest.raises(ZeroDivisionError), held.held():  # noqa: PT012 - it crashes at the end of a session
                assert termios.tcgetattr(theirs) != before
                assert held.size == (80, 24)
                held.draw(["one", "two"])
                held.draw(["one", "three"])
                os.write(ours, b"j\x1b[A")
                await until(lambda: len(pressed) == 2)
                _ = 1 / 0
            assert termios.tcgetattr(theirs) == before
        drawn = ""
        while not drawn.endswith(terminal._LEAVE):
            drawn += os.read(ours, 65536).decode()
    assert pressed == ["j", "up"]
    assert drawn.count("one") == 1  # a line that did not change is not sent again


class Screen:
    """`rowlock top` in a pseudo terminal."""

    def __init__(self, ours: int, theirs: int, process: asyncio.subprocess.Process) -> None:
        self.ours, self.theirs, self.process, self.drawn = ours, theirs, process, ""
        os.set_blocking(ours, False)
        asyncio.get_running_loop().add_reader(ours, self._read)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            self.drawn += os.read(self.ours, 65536).decode(errors="replace")

    async def shows(self, text: str) -> None:
        """Wait until the text was drawn, and forget what was drawn before."""

        async def found() -> bool:
            return text in ESCAPES.sub("", self.drawn)

        try:
            await eventually(found, within=40)
        except AssertionError:
            pytest.fail(f"never drew {text!r}:\n{ESCAPES.sub(chr(10), self.drawn)}")
        self.drawn = ""

    def press(self, text: str) -> None:
        os.write(self.ours, text.encode())

    async def ended(self) -> tuple[int | None, str]:
        _, err = await in_time(self.process.communicate())
        self._read()
        return self.process.returncode, err.decode()


@contextlib.asynccontextmanager
async def screen(cli: Cli, *options: str) -> AsyncIterator[Screen]:
    with terminals() as (ours, theirs):
        before = termios.tcgetattr(theirs)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rowlock", "top", *options),
            cwd=cli.folder,
            env=cli.environment | {"TERM": "xterm-256color", "COLUMNS": "33"},
            stdin=theirs,
            stdout=theirs,
            stderr=asyncio.subprocess.PIPE,
        )
        one = Screen(ours, theirs, process)
        try:
            yield one
            assert LEFT in one.drawn
            assert "\x1b[?25h" in one.drawn  # the cursor is back
            assert termios.tcgetattr(theirs) == before
        finally:
            asyncio.get_running_loop().remove_reader(ours)
            if process.returncode is None:
                process.kill()
                await process.wait()


async def test_a_session_at_a_terminal(cli: Cli, app: Rowlock, store: Store) -> None:
    job, pending, _ = await running(store)
    async with screen(cli, "--interval", "200ms") as top:
        await top.shows("editions 3/4")
        top.press("?")
        await top.shows("resume a lane")
        top.press(" ")
        await top.shows("WORKERS")
        top.press("c")
        await top.shows(f"Cancel job {ids.encode(job)} (render)? y/n")
        top.press("y")
        await top.shows("cancel requested")
        top.press("\x1b[Ba")
        await top.shows(f"Approve job {ids.encode(pending)} (pay)? y/n")
        top.press("y")
        await top.shows("is queued")
        resize(top.theirs, 160, 50)
        top.process.send_signal(signal.SIGWINCH)
        await top.shows("ATTEMPT")
        top.press("q")
        assert await top.ended() == (0, "")
    assert (await app.jobs.get(job)).cancel_requested
    assert (await app.jobs.get(pending)).state == State.QUEUED


async def test_the_database_goes_and_comes_back_and_ctrl_c_ends_it(
    cli: Cli, store: Store, administrator: psycopg.Connection[Any]
) -> None:
    await running(store)
    name = await store.value("SELECT current_database()")
    async with screen(cli, "--interval", "200ms") as top:
        await top.shows("editions 3/4")
        administrator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        administrator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> %s", (name, store.pid)
        )
        await top.shows("reconnecting")
        administrator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        await store.lane("second")
        await top.shows("second")
        top.process.send_signal(signal.SIGINT)
        assert await top.ended() == (130, "")


@pytest.mark.parametrize("turns", range(6))
async def test_ctrl_c_is_heard_also_when_news_come_at_the_same_moment(bench: Bench, turns: int) -> None:
    waiting = asyncio.create_task(bench._until_redraw())
    await nothing_happens_for(0.01)
    bench._redraw.set()
    for _ in range(turns):
        await let_others_run()
    heard = waiting.cancel()  # False: it had ended before
    await asyncio.wait([waiting])
    assert waiting.cancelled() == heard


async def test_one_picture_where_nobody_looks(cli: Cli, store: Store) -> None:
    job, *_ = await running(store)
    answer = await cli("top", TERM="xterm-256color")
    assert (answer.code, answer.err) == (0, "")
    assert "\x1b" not in answer.out
    assert re.search(rf"^{ids.encode(job)} .* editions 3/4", answer.out, re.MULTILINE)
    record = (await cli("top", "--once", "--json")).json
    assert [one["id"] for one in record["running"]] == [ids.encode(job)]
    assert [one["kind"] for one in record["pending"]] == ["pay"]
    assert (await cli("top", "--interval", "1ms")).code == 2
