"""How an exception is stored: shortened, storable, and without secrets, whatever the exception does."""

from __future__ import annotations

import json

import pytest
from typing_extensions import override

from rowlock import JobFailed, Retry, Rowlock
from rowlock.model.failure import MESSAGE_CHARACTERS, Failure, application_frame, error_fields, shortened


class Mute(Exception):
    @override
    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_has_type_message_and_traceback() -> None:
    try:
        raise ValueError("no\x00 hunter2")  # noqa: TRY301 - its traceback is looked at
    except ValueError as error:
        fields = error_fields(error, frozenset({"hunter2"}))
    assert (fields["type"], fields["message"]) == ("ValueError", "no\ufffd •••")
    trace = str(fields["traceback"])
    assert "test_an_error_has_type_message_and_traceback" in trace
    # The source line of the raise is part of a traceback, so the secret stands there, too.
    assert "hunter2" not in trace
    assert error_fields(Mute(), frozenset())["type"] == f"{Mute.__module__}.Mute"
    assert error_fields(Mute(), frozenset())["message"] == "(its message cannot be printed)"


def test_long_texts_are_cut_in_the_middle() -> None:
    text = shortened("a" * MESSAGE_CHARACTERS + "z" * 1000)
    assert text.startswith("a" * 1000)
    assert text.endswith("z" * 1000)
    assert "1,000 characters left out" in text
    assert shortened("short") == "short"


def test_a_failure_is_read_from_stored_errors() -> None:
    stored = {"reason": "not retried", **error_fields(ValueError("no"), frozenset())}
    failure = Failure.of(stored, 3)
    assert (failure.reason, failure.message, failure.attempt, failure.type) == ("not retried", "no", 3, "ValueError")
    assert Failure.of(None, 0) == Failure("failed", "failed", 0)


def test_the_frame_is_the_innermost_function_of_the_application() -> None:
    try:
        json.loads("{")
    except ValueError as error:
        trace = str(error_fields(error, frozenset())["traceback"])
    name = "test_the_frame_is_the_innermost_function_of_the_application"
    assert application_frame(trace) == f"model/test_failure.py:{name}"
    foreign = trace.replace("/tests/", "/site-packages/")
    assert application_frame(foreign) is None
    assert application_frame("no traceback at all") is None


async def test_the_trace_of_an_attempt_begins_in_the_handler(database_url: str) -> None:
    async with Rowlock(database_url) as app:

        @app.job(retry=Retry(attempts=1))
        async def explode() -> None:
            json.loads("{")

        @app.job(retry=Retry(attempts=1))
        def explode_in_a_thread() -> None:
            json.loads("{")

        async with app.worker():
            for name, task in (("explode", explode), ("explode_in_a_thread", explode_in_a_thread)):
                job = await task.enqueue()
                with pytest.raises(JobFailed):
                    await job.wait(timeout=60)
                trace = str(((await app.jobs.get(job.id)).errors or {})["traceback"])
                first = next(line for line in trace.splitlines() if line.strip().startswith("File "))
                assert first.strip().endswith(f"in {name}"), trace
                assert "json/decoder.py" in trace


def test_the_trace_of_an_error_inside_rowlock_is_kept_whole() -> None:
    try:
        shortened(7)  # type: ignore[arg-type]
    except TypeError as error:
        own = error.__traceback__
        assert own is not None
        trace = str(error_fields(error.with_traceback(own.tb_next), frozenset())["traceback"])
    assert "in shortened" in trace
