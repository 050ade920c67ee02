from __future__ import annotations

import logging

import pytest

from rowlock.outage_log import OutageLog

logger = logging.getLogger("rowlock.test")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outage(clock: Clock, caplog: pytest.LogCaptureFixture) -> OutageLog:
    caplog.set_level(logging.INFO, "rowlock.test")
    return OutageLog(logger, "w cannot claim", "w claims again", clock=clock)


def test_an_outage_is_told_at_once_then_ever_more_rarely_and_so_is_its_end(
    outage: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(180):
        outage.failed(ConnectionRefusedError("refused"))
        clock.now += 1
    assert caplog.messages == [
        "w cannot claim: refused",
        "w cannot claim for 10s (11 times): refused",
        "w cannot claim for 40s (41 times): refused",
        "w cannot claim for 1m40s (101 times): refused",
        "w cannot claim for 2m40s (161 times): refused",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    caplog.clear()
    assert outage.ongoing
    outage.recovered()
    outage.recovered()
    assert caplog.messages == ["w claims again after 3m (180 failures)"]
    caplog.clear()
    outage.failed(ConnectionRefusedError("refused"))
    assert caplog.messages == ["w cannot claim: refused"]


def test_another_cause_is_told_at_once_but_not_one_after_the_other(
    outage: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        for cause in (OSError("one"), ValueError("two"), KeyError("three"), TypeError("four"), RuntimeError("five")):
            outage.failed(cause)
            clock.now += 0.1
    assert [message.rpartition(": ")[2] for message in caplog.messages] == ["one", "two", "'three'", "four"]


def test_failures_far_apart_are_each_their_own(
    outage: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        outage.failed(OSError("away"))
        clock.now += 100
    assert caplog.messages == ["w cannot claim: away"] * 3


def test_what_nobody_foresaw_comes_with_its_trace_once(
    outage: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(30):
        outage.failed(ZeroDivisionError("a defect"), unforeseen=True)
        clock.now += 1
    assert [bool(record.exc_info) for record in caplog.records] == [True, False]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
