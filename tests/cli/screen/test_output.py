from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from rowlock.cli.job_ids import ids_in
from rowlock.cli.screen import records
from rowlock.cli.screen.job_text import error_text, job_columns, job_rows, progress_text
from rowlock.cli.screen.output import (
    Screen,
    aligned,
    clean,
    compact,
    distance,
    fitted,
    moment,
    span,
)
from rowlock.model import ids
from rowlock.model.job import Job
from rowlock.model.progress import Progress
from rowlock.model.state import State

NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)


def job(**values: object) -> Job:
    given = {"id": 7, "kind": "greet", "state": State.QUEUED, "priority": 0, "attempt": 1, "max_attempts": 5}
    return Job(**{**given, "created_at": NOON, "run_after": NOON, **values})  # type: ignore[arg-type]  # as given by each test


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "now"),
        (-0.4, "now"),
        (-1, "1 s ago"),
        (59.9, "in 59 s"),
        (-60, "1 min ago"),
        (7200, "in 2 h"),
        (-86_400, "1 day ago"),
        (864_000, "in 10 days"),
    ],
)
def test_distances_are_told_in_their_largest_unit(seconds: float, text: str) -> None:
    assert distance(timedelta(seconds=seconds)) == text


def test_moments_are_local_with_their_date_unless_today() -> None:
    assert moment(None) == ""
    assert moment(NOON, NOON + timedelta(seconds=3)) == f"{NOON.astimezone():%H:%M:%S} (3 s ago)"
    assert moment(NOON, NOON + timedelta(days=3)) == f"{NOON.astimezone():%Y-%m-%d %H:%M:%S} (3 days ago)"


def test_spans_are_told_to_the_millisecond() -> None:
    assert [span(None), span(timedelta(seconds=1.23456)), span(timedelta(0))] == ["", "1.235s", "0s"]


def test_columns_are_aligned_and_lines_end_without_blanks() -> None:
    assert aligned([["a", "b"], ["long", ""]]) == ["a     b", "long"]


def test_text_of_strangers_cannot_steer_the_terminal() -> None:
    assert clean("\x1b[2Jgone\r\nnext\tcolumn") == "\\x1b[2Jgone\\r\nnext\tcolumn"


def test_json_has_utc_instants_seconds_and_the_public_id() -> None:
    record = json.loads(compact(records.job(job(progress=Progress("load", 1, 4)))))
    assert record["id"] == ids.encode(7)
    assert "number" not in record
    assert record["created_at"] == "2027-01-31T12:00:00Z"
    assert record["progress"]["phase"] == "load"
    assert json.loads(compact({"poll": timedelta(milliseconds=1500)})) == {"poll": 1.5}


@pytest.mark.parametrize(
    ("values", "start", "end"),
    [
        ({}, "due ", ")"),
        ({"state": State.PENDING}, "", ""),
        ({"state": State.RUNNING, "claimed_at": NOON, "cancel_requested": True}, "since ", ", cancel requested"),
        ({"state": State.FAILED, "finished_at": NOON}, "ended ", ")"),
    ],
)
def test_the_last_column_tells_what_happened_last(values: dict[str, object], start: str, end: str) -> None:
    ((*_, last),) = job_rows([job(**values)])
    assert last.startswith(start)
    assert last.endswith(end)


def test_progress_and_errors_fit_one_line() -> None:
    assert progress_text(None) == ""
    assert progress_text(Progress("load", 2, 4, "half")) == "load 2/4 half"
    assert progress_text(Progress(None, 2.5)) == "2.5"
    stored = {"reason": "failed", "type": "ValueError", "message": "no", "traceback": "Traceback …\n"}
    assert error_text(stored) == "failed: ValueError: no"
    assert error_text(stored, full=True) == "failed: ValueError: no\nTraceback …"
    assert error_text({"errors": ["row 2", "row 4"]}, full=True) == "row 2\nrow 4"


def test_empty_fields_are_left_out_and_long_ones_indented(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(as_json=False).fields({"id": "7", "lane": "", "errors": "one\ntwo"}, {})
    assert capsys.readouterr().out == "id      7\nerrors  one\n        two\n"


def test_a_narrow_terminal_gets_distances_then_fewer_columns() -> None:
    columns, rows = ("id", "priority", "created"), [["7", "0", "2027-01-31 14:03:22 (3 min ago)"]]
    assert fitted(columns, rows, ("priority",), 80) == (columns, rows)
    assert fitted(columns, rows, ("priority",), 25) == (columns, [["7", "0", "3 min ago"]])
    assert fitted(columns, rows, ("priority",), 15) == (["id", "created"], [["7", "3 min ago"]])
    assert fitted(columns, rows, (), 15) == (columns, [["7", "0", "3 min ago"]])


def test_ids_are_found_in_what_the_command_line_prints() -> None:
    assert ids_in("ID    KIND\n7ABC  greet\n\n8DEF  greet\n") == ["7ABC", "8DEF"]
    assert ids_in('[{"id": "7ABC"}, {"id": "8DEF"}]') == ["7ABC", "8DEF"]
    assert ids_in('{"id": "7ABC", "state": "queued"}\n{"id": "7ABC", "state": "running"}\n') == ["7ABC", "7ABC"]
    assert ids_in("No jobs.\n") == ids_in("") == ids_in("[]") == []


def test_sentences_are_broken_between_words_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "  Also: it waits for 0ZW3-SVXH-120C-EZ, which has the lock"
    Screen(as_json=False).prose(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    Screen(as_json=False).prose(text)
    lines = ["  Also: it waits for", "    0ZW3-SVXH-120C-EZ, which", "    has the lock"]
    assert capsys.readouterr().out.splitlines() == lines


def test_a_table_of_jobs_shows_errors_when_one_has_one() -> None:
    fine = job(state=State.COMPLETED)
    assert "error" not in job_columns([fine])
    assert len(job_rows([fine])[0]) == len(job_columns([fine]))
    raised = job(state=State.FAILED, errors={"reason": "failed", "type": "OSError", "message": "no paper\nleft"})
    partly = job(state=State.COMPLETED_WITH_ERRORS, errors={"errors": ["page 7 is torn", "page 8"]})
    wordy = job(state=State.FAILED, errors={"type": "OSError", "message": "x" * 200})
    jobs = [fine, raised, partly, wordy]
    assert job_columns(jobs)[-1] == "error"
    errors = [row[-1] for row in job_rows(jobs)]
    assert errors[:3] == ["", "failed: OSError: no paper", "page 7 is torn"]
    assert (len(errors[3]), errors[3][-1]) == (80, "…")
