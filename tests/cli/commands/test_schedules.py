from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Rowlock

ADD = ["schedules", "add", "nightly", "greet", "--args", '{"name": "Ada"}']


async def test_a_schedule_is_added_listed_edited_and_removed(cli: Cli, app: Rowlock) -> None:
    assert "rowlock schedules add" in (await cli("schedules", "ls")).out
    window = ["--window", "03:00-06:00 sat,sun defer"]
    added = await cli(
        *ADD,
        "--cron",
        "0 2 * * *",
        "--tz",
        "Europe/London",
        "--overlap",
        "skip",
        *window,
        "--json",
        ROWLOCK_APP="tasks:app",
    )
    assert added.code == 0, added.err
    (record,) = added.json
    assert (record["cron"], record["overlap"], record["declared"]) == ("0 2 * * *", "skip", False)
    assert record["windows"] == [{"hours": "03:00-06:00", "days": "sat,sun", "then": "defer"}]
    head, row = (await cli("schedules", "ls")).out.splitlines()
    assert head.split()[:5] == ["SCHEDULE", "KIND", "WHEN", "ZONE", "NEXT"]
    assert "0 2 * * *" in row
    shown = (await cli("schedules", "show", "nightly")).out
    assert "Europe/London" in shown
    assert shown.count("Z\n") == 5
    edited = await cli("schedules", "edit", "nightly", "--every", "15m", "--tz", "UTC", "--no-windows", "--json")
    assert (edited.json[0]["every"], edited.json[0]["cron"], edited.json[0]["windows"]) == (900.0, None, [])
    assert "paused" in (await cli("schedules", "pause", "nightly")).out
    assert " on" in (await cli("schedules", "resume", "nightly")).out
    runs = (await cli("schedules", "next", "nightly", "-n", "3", "--json")).json
    assert len(runs) == 3
    assert (await cli("schedules", "next", "nightly")).out.splitlines()[0] == "UTC"
    assert 'greet {"name": "Ada"}' in (await cli("schedules", "show", "nightly")).out
    assert (await cli("schedules", "rm", "nightly")).out == "nightly removed\n"
    assert await app.schedules.list() == []


async def test_run_and_backfill(cli: Cli) -> None:
    assert (await cli(*ADD, "--every", "1h", ROWLOCK_APP="tasks:app")).code == 0
    ran = await cli("schedules", "run", "nightly", ROWLOCK_APP="tasks:app")
    assert ran.out.endswith("created\n")
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    span = ["--from", f"{end - timedelta(hours=2):%Y-%m-%dT%H:%MZ}", "--until", f"{end:%Y-%m-%dT%H:%MZ}"]
    told = await cli("schedules", "backfill", "nightly", *span, ROWLOCK_APP="tasks:app")
    assert told.out.endswith("2 would be enqueued. Repeat it with --yes.\n")
    assert (
        len(
            (await cli("schedules", "backfill", "nightly", *span, "--yes", "--json", ROWLOCK_APP="tasks:app")).json[
                "jobs"
            ]
        )
        == 2
    )
    again = await cli("schedules", "backfill", "nightly", *span, "--yes", ROWLOCK_APP="tasks:app")
    assert again.out == "0 enqueued; 2 have had their job.\n"


async def test_mistakes_are_told_with_their_exit_codes(cli: Cli) -> None:
    for words, code, told in (
        ([*ADD, "--cron", "0 99 * * *"], 2, "at character 3"),
        ([*ADD, "--every", "1h", "--tz", "london"], 2, "Europe/London"),
        ([*ADD], 2, "got neither"),
        ([*ADD, "--every", "1h", "--window", ""], 2, "hours of a window"),
        ([*ADD, "--every", "1h", "--most-missed", "0"], 2, "most_missed"),
        (["schedules", "add", "a/b", "greet", "--every", "1h", "--args", '{"name": "Ada"}'], 2, "no /"),
        (["schedules", "add", "x", "gret", "--every", "1h"], 1, "greet"),
        (["schedules", "pause", "nihgtly"], 1, "There is no schedule"),
        (["schedules", "edit", "nightly"], 2, "Nothing to change"),
        (
            ["schedules", "backfill", "nightly", "--from", "yesterday", "--until", "2027-01-01"],
            1,
            "There is no schedule",
        ),
    ):
        answer = await cli(*words, ROWLOCK_APP="tasks:app")
        assert (answer.code, told in answer.err) == (code, True), (words, answer.err)
