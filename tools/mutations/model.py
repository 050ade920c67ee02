"""Mutations of the model."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

STREAMED: Final = "tests/desk/follow/test_stream.py::test_"

MUTATIONS: Final = (
    Mutation(
        "a secret in base64 passes",
        "model/redact.py",
        "    for before in range(3):\n",
        "    for before in range(0):\n",
        ("tests/model/test_redact.py::test_a_secret_is_masked_in_other_spellings",),
    ),
    Mutation(
        "a database password among the parameters is printed",
        "model/database_url.py",
        '    rest = _PARAMETER.sub(rf"\\1{MASK}", rest)\n',
        "",
        ("tests/model/test_database_url.py::test_the_password_is_masked_wherever_it_stands",),
    ),
    Mutation(
        "JSON on a terminal steers it",
        "model/json_output.py",
        'c if c.isprintable() or c == "\\n" else',
        'c if c.isprintable() or c != "\\0" else',
        ("tests/model/test_json_output.py::test_characters_that_a_terminal_obeys_are_escaped_in_json",),
    ),
    Mutation(
        "one row that is nested too deep fails its page",
        "model/stored_json.py",
        "    if is_deep(text.encode()):\n",
        "    if text.startswith(' '):\n",
        ("tests/api/routes/test_unreadable_jobs.py::test_a_row_that_cannot_be_read_is_shown_and_can_be_removed",),
    ),
    Mutation(
        "one row whose arguments are a list fails its page",
        "model/stored_json.py",
        "    if not isinstance(value, dict):\n",
        "    if value is None:\n",
        ("tests/api/routes/test_unreadable_jobs.py::test_a_row_that_cannot_be_read_is_shown_and_can_be_removed",),
    ),
    Mutation(
        "a stream repeats what was told",
        "model/event.py",
        "if draft is not None and fence >= position.step:",
        "if draft is not None:",
        (f"{STREAMED}a_life_is_told_from_the_rows_alone_and_from_every_event_on",),
    ),
    Mutation(
        "a time of day that comes twice is due twice",
        "model/times/cron.py",
        "return [first] if self._daily else [first, second]",
        "return [first, second]",
        ("tests/model/test_schedule.py::test_a_time_of_day_is_due_once_on_every_day_of_a_year",),
    ),
    Mutation(
        "a gap of the clock is found at its beginning",
        "model/times/cron.py",
        "lambda moment: offset(moment) != offset(before)",
        "lambda moment: True",
        ("tests/fuzz/test_cron.py::test_slots_are_those_that_looking_at_every_minute_finds",),
    ),
)
