"""What jobs log is stored with them: ctx.log and logging, from coroutines and threads, up to a limit."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr
from tests.waiting import in_time, let_others_run

import rowlock
from rowlock import Retry, SyncContext
from rowlock.errors import ConfigurationError
from rowlock.flow.progress import job_logs, reporter
from rowlock.flow.progress.base_context import io_of
from rowlock.model.progress import ATTEMPT_LINES, LOGS_OFF, LogLine, log_level, missed_between
from rowlock.telemetry import JobLogFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import asyncpg

    from rowlock import Rowlock

ONCE = Retry(attempts=1)
library = logging.getLogger("some.library")


def texts(lines: list[LogLine]) -> list[str]:
    return [line.message for line in lines]


@pytest.fixture(autouse=True)
def _talkative() -> None:
    library.setLevel(logging.DEBUG)


async def test_ctx_log_and_logging_are_kept_in_order_over_all_attempts(app: Rowlock) -> None:
    @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def work(ctx: rowlock.Context) -> None:
        ctx.log.info("attempt %d", ctx.job.attempt)
        library.warning("from a library: %s", "careful")
        library.debug("too quiet to be kept")
        await let_others_run()
        if ctx.job.attempt == 1:
            try:
                await asyncio.wait_for(asyncio.Event().wait(), 0)
            except TimeoutError:
                ctx.log.exception("gave up")
                raise

    async with app.worker():
        handle = await work.enqueue()
        library.error("outside of any job")
        await app.jobs.wait(handle.id, timeout=10)
    lines = await app.jobs.logs(handle.id)
    assert [line.message.splitlines()[0] for line in lines] == [
        "attempt 1", "from a library: careful", "gave up", "attempt 2", "from a library: careful",
    ]  # fmt: skip
    assert "TimeoutError" in lines[2].message
    assert [line.level_name for line in lines] == ["INFO", "WARNING", "ERROR", "INFO", "WARNING"]
    assert [line.fence for line in lines] == [1, 1, 1, 3, 3]
    assert [line.missed for line in lines] == [0] * 5
    assert {line.logger for line in lines} == {"rowlock.handler", "some.library"}
    assert await app.jobs.logs(handle.id, after=lines[2].n, limit=1) == lines[3:4]
    assert await app.jobs.logs(handle.id, limit=2, last=True) == lines[3:]
    job = await app.jobs.get(handle.id)
    assert job.progress is None
    assert job.last_progress_at is not None


async def test_threads_and_handlers_without_a_context_are_heard_too(app: Rowlock) -> None:
    @app.job(retry=ONCE)
    def blocking(ctx: SyncContext) -> None:
        ctx.log.info("in a thread")
        library.info("and its library")

    @app.job(retry=ONCE)
    async def bare() -> None:
        library.info("no context")

    @app.job(retry=ONCE)
    async def hands_on() -> None:
        await asyncio.to_thread(library.info, "from another thread")

    async with app.worker():
        handles = [await blocking.enqueue(), await bare.enqueue(), await hands_on.enqueue()]
        for handle in handles:
            await handle.wait(timeout=10)
    found = [texts(await app.jobs.logs(handle.id)) for handle in handles]
    assert found == [["in a thread", "and its library"], ["no context"], ["from another thread"]]


async def test_secrets_are_not_logged(app: Rowlock) -> None:
    @app.job(retry=ONCE)
    async def work(ctx: rowlock.Context, key: SecretStr) -> None:
        ctx.log.info("the key is %s", key.get_secret_value())

    async with app.worker():
        handle = await work.enqueue(SecretStr("hush-hush"))
        await handle.wait(timeout=10)
    assert texts(await app.jobs.logs(handle.id)) == ["the key is •••"]


async def test_a_log_has_a_limit_and_its_newest_lines_are_kept(
    app: Rowlock, monkeypatch: pytest.MonkeyPatch, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    monkeypatch.setattr(reporter, "LOG_LINES", 100)
    monkeypatch.setattr(reporter, "LOG_BYTES", 3000)

    @app.job(retry=ONCE)
    async def lines(ctx: rowlock.Context) -> None:
        for n in range(250):
            ctx.log.info("%d", n)
            if n % 50 == 0:
                await ctx.checkpoint.save(n)

    @app.job(retry=ONCE)
    async def letters(ctx: rowlock.Context) -> None:
        for n in range(8):
            ctx.log.info("%d %s", n, "x" * 500)

    async with app.worker():
        many, long = await lines.enqueue(), await letters.enqueue()
        await many.wait(timeout=10)
        await long.wait(timeout=10)
    kept = await app.jobs.logs(many.id)
    assert texts(kept) == [str(n) for n in range(250 - len(kept), 250)]
    assert 50 <= len(kept) <= 100
    assert kept[0].missed == 250 - len(kept)
    assert [line.missed for line in kept[1:]] == [0] * (len(kept) - 1)
    assert [text[0] for text in texts(await app.jobs.logs(long.id))] == ["3", "4", "5", "6", "7"]
    for job_id in (many.id, long.id):
        counted = "SELECT count(*), sum(octet_length(message)) FROM job_logs WHERE job_id = $1"
        kept_in_row = "SELECT log_lines, log_bytes FROM job_progress WHERE job_id = $1"
        assert tuple(await sql.fetchrow(counted, job_id) or ()) == tuple(await sql.fetchrow(kept_in_row, job_id) or ())


async def test_what_is_kept_is_decided_by_setting_and_by_kind(make_app: Callable[..., Rowlock]) -> None:
    app = make_app(job_logs=log_level("off", "test"))

    @app.job(retry=ONCE)
    async def quiet(ctx: rowlock.Context) -> None:
        ctx.log.error("not kept")
        library.error("nor this")

    @app.job(retry=ONCE, logs="warning")
    async def some(ctx: rowlock.Context) -> None:
        ctx.log.info("too quiet")
        library.warning("kept")

    async with app.worker():
        first, second = await quiet.enqueue(), await some.enqueue()
        await first.wait(timeout=10)
        await second.wait(timeout=10)
    assert await app.jobs.logs(first.id) == []
    assert texts(await app.jobs.logs(second.id)) == ["kept"]
    with pytest.raises(ConfigurationError, match="log level"):
        app.job("loud", logs="loud")(lambda: None)


async def test_a_stale_claim_logs_nothing(app: Rowlock, sql: asyncpg.Connection[asyncpg.Record]) -> None:
    ended = asyncio.Event()

    @app.job(retry=ONCE)
    async def work(ctx: rowlock.Context) -> None:
        try:
            await app.jobs.stop(ctx.job.id)
            ctx.log.info("too late")
            await io_of(ctx).channel.flush()
        finally:
            ended.set()

    async with app.worker():
        await work.enqueue()
        await in_time(ended.wait())
    assert await sql.fetchval("SELECT count(*) FROM job_logs") == 0


@pytest.fixture
def _nothing_captured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests of workers that are abandoned leave their capture behind."""
    monkeypatch.setattr(job_logs, "_CAPTURES", [])
    monkeypatch.setattr(job_logs._Factory, "original", None)
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(logging.LogRecord)
    yield
    logging.setLogRecordFactory(before)


@pytest.mark.usefixtures("_nothing_captured")
async def test_logging_is_left_as_it_was(app: Rowlock) -> None:
    before, handlers = logging.getLogRecordFactory(), list(logging.getLogger().handlers)
    async with app.worker(), app.worker():
        assert logging.getLogRecordFactory() is not before
        assert logging.getLogger().handlers == handlers
    assert logging.getLogRecordFactory() is before


async def test_the_caller_is_named_by_records_of_ctx_log(app: Rowlock, caplog: pytest.LogCaptureFixture) -> None:
    @app.job(retry=ONCE)
    def work(ctx: SyncContext) -> str:
        ctx.log.warning("here")
        return threading.current_thread().name

    async with app.worker():
        await (await work.enqueue()).wait(timeout=10)
    (record,) = [record for record in caplog.records if record.message == "here"]
    assert (record.funcName, record.filename) == ("work", "test_job_logs.py")


def test_levels_and_gaps() -> None:
    assert [log_level(value, "x") for value in ("info", "DEBUG", 35, "off", False)] == [20, 10, 35, LOGS_OFF, LOGS_OFF]
    first = 3 * ATTEMPT_LINES
    assert missed_between(0, first + 1) == 0
    assert missed_between(first + 1, first + 2) == 0
    assert missed_between(first + 2, first + 9) == 6
    assert missed_between(first + 9, first + ATTEMPT_LINES + 4) == 3


async def test_secrets_reach_no_log_record_and_no_reader(app: Rowlock, caplog: pytest.LogCaptureFixture) -> None:
    @app.job(retry=ONCE)
    async def login(ctx: rowlock.Context, token: SecretStr) -> dict[str, str]:
        plain = token.get_secret_value()
        library.warning("token %s, %r", plain, {"shouted": plain.upper()})
        await ctx.phase(f"with {plain}").__aenter__()
        try:
            raise ValueError(plain)  # noqa: TRY301 - its traceback is what is looked at
        except ValueError:
            library.exception("refused")
        return {"url": f"https://x/?t={plain}", "user": "ada"}

    with caplog.at_level(logging.DEBUG):
        async with app.worker():
            handle = await login.enqueue(SecretStr("hunter2-hunter2"))
            assert await handle.wait(timeout=30) == {"url": "https://x/?t=hunter2-hunter2", "user": "ada"}
    formatter = logging.Formatter()
    printed = "\n".join(formatter.format(record) for record in caplog.records)
    assert "token •••" in printed
    assert "hunter2" not in printed.lower()
    job = await app.jobs.get(handle.id)
    assert job.result == {"url": "•••", "user": "ada"}
    assert "hunter2" not in repr((job, await app.jobs.logs(handle.id)))


async def test_secrets_in_extra_fields_are_masked(app: Rowlock, caplog: pytest.LogCaptureFixture) -> None:
    @app.job(retry=ONCE)
    async def login(ctx: rowlock.Context, token: SecretStr) -> None:
        plain = token.get_secret_value()
        fields = {"header": f"Bearer {plain}", "request": {"tokens": [plain]}, "tries": 3, "options": {"a": 1}}
        ctx.log.warning("through the context", extra=fields)
        library.warning("through a library", extra=fields)

    caplog.handler.addFilter(JobLogFilter())
    async with app.worker():
        handle = await login.enqueue(SecretStr("hunter2-hunter2"))
        await handle.wait(timeout=30)
    records = [record for record in caplog.records if record.getMessage().startswith("through")]
    assert len(records) == 2
    for record in records:
        said = record.__dict__
        assert [said[name] for name in ("header", "request", "tries", "options")] == ["Bearer •••", "•••", 3, {"a": 1}]
        assert said["kind"] == "login"


async def test_items_are_named_without_secrets_and_known_again_by_those_names(app: Rowlock) -> None:
    ran: list[str] = []

    @app.job(retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def rotate(ctx: rowlock.Context, token: SecretStr) -> int:
        plain = token.get_secret_value()

        async def one(_item: rowlock.ItemContext, name: str) -> str:
            ran.append(name)
            return name

        done = await ctx.items([f"key {plain}", "other"], one, limit=1, resume=True)
        if ctx.job.attempt == 1:
            assert set(done.results) == {f"key {plain}", "other"}
            raise ValueError("once more")
        return len(done.kept)

    @app.job(retry=ONCE)
    async def twice(ctx: rowlock.Context, token: SecretStr) -> None:
        plain = token.get_secret_value()

        async def one(_item: rowlock.ItemContext, _name: str) -> None: ...

        await ctx.items([f"key {plain}", f"key {plain.upper()}"], one, limit=1)

    async with app.worker():
        handle = await rotate.enqueue(SecretStr("hunter2-hunter2"))
        assert await handle.wait(timeout=30) == 2
        assert ran == ["key hunter2-hunter2", "other"]
        assert sorted(item.name for item in await app.jobs.items(handle.id)) == ["key •••", "other"]
        same = await twice.enqueue(SecretStr("hunter2-hunter2"))
        with pytest.raises(rowlock.JobFailed, match="Two items are called 'key •••'"):
            await same.wait(timeout=30)
