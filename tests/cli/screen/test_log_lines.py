from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from rowlock.cli.screen.log_lines import JsonFormatter, TextFormatter


def record(**fields: Any) -> logging.LogRecord:  # noqa: ANN401 - fields of a record
    made = logging.LogRecord("shop", logging.WARNING, "shop.py", 7, "sold %d", (3,), None)
    made.created, made.msecs = 1_800_000_000.007, 7.0
    made.__dict__.update(fields)
    return made


def test_an_object_has_every_field_of_its_record_and_its_own_members_first() -> None:
    fields = {"job_id": 7, "order": 4711, "level": "mine", "message": "mine", "seconds": 0.25, "error": {"type": "E"}}
    told = json.loads(JsonFormatter(2).format(record(**fields, exc_text="Traceback: E")))
    assert told["at"] == "2027-01-15T08:00:00.007Z"
    assert (told["level"], told["message"], told["process"]) == ("warning", "sold 3", 2)
    assert (told["order"], told["seconds"], told["error"]) == (4711, 0.25, {"type": "E"})
    assert told["exception"] == "Traceback: E"
    assert "-" in told["job_id"]
    assert list(told)[:6] == ["at", "level", "logger", "process", "message", "job_id"]


def test_a_field_that_is_no_json_is_written_as_text() -> None:
    assert json.loads(JsonFormatter().format(record(path=object)))["path"] == "<class 'object'>"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\v", "\f", "\x85", "\u2028"])
def test_a_message_of_several_lines_does_not_pass_for_several_messages(end: str) -> None:
    forged = f"bought{end}14:03:22.041 ← done pay 142C-K0DF"
    _, *others = TextFormatter().format(record(msg=forged, args=())).splitlines()
    assert all(line.startswith("    ") for line in others)
    (line,) = JsonFormatter().format(record(msg=forged, args=())).splitlines()
    assert json.loads(line)["message"] == forged


def test_a_line_ends_with_its_traceback() -> None:
    text = TextFormatter().format(record(exc_text="Traceback\nE: no"))
    assert text.splitlines()[0].endswith(".007 warning: sold 3")
    assert text.splitlines()[1:] == ["Traceback", "    E: no"]
