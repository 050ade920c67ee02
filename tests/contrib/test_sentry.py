from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
import sentry_sdk
from pydantic import SecretStr
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport
from tests.waiting import until, until_cancelled
from typing_extensions import override

from rowlock import Cancel, ConfigurationError, Retry, Rowlock, Settings
from rowlock.contrib.sentry import report_failures
from rowlock.telemetry import JobFinished, JobRescued, JobRetried

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sentry_sdk.envelope import Envelope


class Recorded(Transport):
    """What the SDK would have sent."""

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        super().__init__(options)
        self.events: list[Any] = []
        self.transactions: list[Any] = []

    @override
    def capture_envelope(self, envelope: Envelope) -> None:
        event, transaction = envelope.get_event(), envelope.get_transaction_event()
        if event is not None:
            self.events.append(event)
        if transaction is not None:
            self.transactions.append(transaction)


@pytest.fixture
def sent() -> Iterator[Recorded]:
    transport = Recorded()
    sentry_sdk.init(
        dsn="http://key@localhost/1",
        transport=transport,
        default_integrations=False,
        integrations=[LoggingIntegration()],
        traces_sample_rate=1.0,
    )
    yield transport
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.get_global_scope().set_client(None)
    sentry_sdk.get_isolation_scope().clear()


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url, settings=Settings()) as one:
        yield one


async def failed(app: Rowlock, task: Any, *args: object) -> Any:  # noqa: ANN401 - a task, and its handle
    over: list[object] = []
    app.listen(JobFinished)(over.append)
    job = await task.enqueue(*args)
    async with app.worker():
        await until(lambda: over)
    return job


async def test_a_job_that_failed_is_reported_once_with_its_job(app: Rowlock, sent: Recorded) -> None:
    report_failures(app)

    @app.job(lane="money", retry=Retry(attempts=2, minimum="0s", jitter="0s"))
    async def pay(iban: SecretStr, amount: int) -> None:
        account = iban.get_secret_value()
        raise ValueError(f"no account {account} for {amount}")

    job = await failed(app, pay, SecretStr("DE00 4711 0815"), 7)
    (event,) = sent.events
    assert event["level"] == "error"
    assert event["transaction"] == "pay"
    assert event["tags"] == {"rowlock.kind": "pay", "rowlock.job_id": job.public_id, "rowlock.lane": "money"}
    about = event["contexts"]["rowlock job"]
    assert (about["id"], about["number"], about["kind"]) == (job.public_id, job.id, "pay")
    assert (about["attempt"], about["max_attempts"], about["lane"]) == (2, 2, "money")
    assert event["fingerprint"] == ["{{ default }}", "pay"]
    (raised,) = event["exception"]["values"]
    assert raised["type"] == "ValueError"
    assert "for 7" in raised["value"]
    assert raised["stacktrace"]["frames"][-1]["function"] == "pay"
    assert "4711" not in repr(event)


async def test_attempts_that_are_retried_are_reported_when_asked(app: Rowlock, sent: Recorded) -> None:
    report_failures(app, retries=True)

    @app.job(retry=Retry(attempts=3, minimum="0s", jitter="0s"))
    async def flaky() -> None:
        raise OSError("away")

    await failed(app, flaky)
    assert [event["level"] for event in sent.events] == ["warning", "warning", "error"]


async def test_the_trace_goes_on_in_the_worker(app: Rowlock, sent: Recorded) -> None:
    report_failures(app)

    @app.job
    async def work() -> None:
        sentry_sdk.capture_message("on the way")

    with sentry_sdk.start_transaction(op="http.server", name="POST /work") as request:
        job = await work.enqueue()
    async with app.worker():
        await job.wait(timeout=30)
    (event,) = sent.events
    (run,) = [one for one in sent.transactions if one["transaction"] == "work"]
    assert event["contexts"]["trace"]["trace_id"] == run["contexts"]["trace"]["trace_id"] == request.trace_id
    assert run["contexts"]["trace"]["op"] == "queue.process"
    assert run["contexts"]["trace"]["parent_span_id"] == request.span_id
    assert event["tags"]["rowlock.job_id"] == job.public_id


async def test_a_timeout_is_reported_with_the_place_where_the_handler_stood(app: Rowlock, sent: Recorded) -> None:
    report_failures(app)

    @app.job(timeout="10ms", retry=Retry(attempts=1))
    async def slow() -> None:
        await until_cancelled()

    await failed(app, slow)
    (event,) = sent.events
    cancelled, late = event["exception"]["values"]
    assert late["type"] == "TimeoutError"
    assert late["value"] == "the attempt took longer than its timeout of 0.01 s"
    assert "slow" in [frame["function"] for frame in cancelled["stacktrace"]["frames"]]


async def test_what_is_no_failure_is_not_reported(app: Rowlock, sent: Recorded) -> None:
    report_failures(app)

    @app.job
    async def stopped() -> Cancel:
        return Cancel("not needed")

    await failed(app, stopped)
    assert sent.events == []


async def test_failures_that_no_handler_raised_are_reported_by_the_worker(app: Rowlock, sent: Recorded) -> None:
    report_failures(app)
    heard: dict[type[object], Any] = {}
    for events, callback in app._events._listeners:
        heard |= dict.fromkeys(events, callback)
    died = {"reason": "quarantined", "type": "ProcessDied", "message": "the child process ended by SIGSEGV"}
    heard[JobFinished](JobFinished(7, "render", "default", 1, 3, "failed", 0.1, died))
    heard[JobRescued](JobRescued(8, "render", "failed"))
    heard[JobRescued](JobRescued(8, "render", "queued"))
    heard[JobFinished](JobFinished(7, "render", "default", 1, 3, "completed", 0.1, None))
    raised = {"type": "OSError", "message": "x", "traceback": 'Traceback:\n  File "a.py", line 1, in f\nOSError: x'}
    heard[JobFinished](JobFinished(7, "render", "default", 1, 3, "failed", 0.1, raised))
    assert JobRetried in heard
    assert [event["message"] for event in sent.events] == [
        "render: the child process ended by SIGSEGV",
        "render: its worker was lost",
    ]


async def test_without_sentry_set_up_jobs_run_and_store_nothing(app: Rowlock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    report_failures(app)

    @app.job
    async def work() -> str:
        return "done"

    job = await work.enqueue()
    assert (await job.job()).meta == {}
    async with app.worker():
        assert await job.wait(timeout=30) == "done"


async def test_it_is_called_once(app: Rowlock) -> None:
    report_failures(app)
    with pytest.raises(ConfigurationError, match=r"report_failures\(\) was called for this application before"):
        report_failures(app)
