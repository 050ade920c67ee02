"""A report's snapshots: what is repeated in each, what moves into one, and what comes back when it was not written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from rowlock.flow.progress.report import LOG_LINES, ItemUpdate, ProgressReport
from rowlock.model.job import Claim
from rowlock.model.progress import ItemState, LogLine

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = (Claim(1, 1), "build", "a")


def line(n: int) -> LogLine:
    return LogLine(n, NOW, 20, "app", f"line {n}")


def test_counters_are_in_every_snapshot_and_the_rest_in_one() -> None:
    report = ProgressReport(Claim(1, 1))
    report.begin_phase(NOW, "build", 10, 0)
    report.set_counter(NOW, 3, None, "page 3")
    report.items[KEY] = ItemUpdate(ItemState.IN_PROGRESS, NOW)
    report.cursors["chunk"], report.checkpoint = 7, "{}"
    report.lines.append(line(1))
    first, second = report.snapshot(), report.snapshot()
    assert (first.phase, first.done, first.total, first.message) == ("build", 3, 10, "page 3")
    assert (second.phase, second.done, second.total, second.message) == ("build", 3, 10, "page 3")
    assert (first.items, first.cursors, first.checkpoint, list(first.lines)) == (
        {KEY: ItemUpdate(ItemState.IN_PROGRESS, NOW)},
        {"chunk": 7},
        "{}",
        [line(1)],
    )
    assert (second.items, second.cursors, second.checkpoint, list(second.lines)) == ({}, {}, None, [])


def test_a_restored_snapshot_gives_way_to_what_was_reported_since() -> None:
    report = ProgressReport(Claim(1, 1))
    report.items[KEY], report.cursors["chunk"] = ItemUpdate(ItemState.IN_PROGRESS, NOW), 1
    report.checkpoint = "1"
    report.lines.extend([line(1), line(2)])
    lost = report.snapshot()
    report.items[KEY] = ItemUpdate(ItemState.COMPLETED, NOW, NOW)
    report.lines.append(line(3))
    report.restore(lost)
    assert report.dirty
    again = report.snapshot()
    assert again.items[KEY].state is ItemState.COMPLETED
    assert (again.cursors, again.checkpoint) == ({"chunk": 1}, "1")
    assert [one.n for one in again.lines] == [1, 2, 3]


def test_of_too_many_lines_the_newest_wait() -> None:
    report = ProgressReport(Claim(1, 1))
    report.lines.extend(map(line, range(10)))
    lost = report.snapshot()
    report.lines.extend(map(line, range(10, LOG_LINES + 5)))
    report.restore(lost)
    kept = report.snapshot().lines
    assert (len(kept), kept[0].n, kept[-1].n) == (LOG_LINES, 5, LOG_LINES + 4)


def test_a_phase_ends_with_the_next_one_and_only_by_its_own_number() -> None:
    report = ProgressReport(Claim(1, 1))
    report.begin_phase(NOW, "first", None, 0)
    number = report.phase_number
    report.begin_phase(NOW + timedelta(seconds=1), "second", None, 0)
    report.end_phase(NOW + timedelta(seconds=2), number)
    assert [phase.ended_at for phase in report.phases] == [NOW + timedelta(seconds=1), None]


def test_only_log_lines_are_no_progress_and_infinity_is_no_number() -> None:
    report = ProgressReport(Claim(1, 1))
    report.lines.append(line(1))
    assert report.snapshot().progress_json() is None
    report.set_counter(NOW, float("inf"), float("nan"), None)
    assert json.loads(report.snapshot().progress_json() or "") == {
        "done": None,
        "total": None,
        "since": NOW.isoformat(),
        "from": None,
    }
