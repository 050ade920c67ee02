from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.model.lane import Lane

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Rowlock


async def test_lanes_are_listed_and_tuned(cli: Cli, app: Rowlock) -> None:
    await app.lanes.create(Lane("reports", kinds=("report",), slots=2))
    listed = await cli("lanes", "ls")
    head, row = listed.out.splitlines()
    assert head.split()[:3] == ["LANE", "KINDS", "SLOTS"]
    assert row.split() == ["reports", "report", "2", "0/0", "0", "fast", "5s", "1m", "open", "1"]
    edits = ["--slots", "7", "--max-total", "9", "--order", "strict", "--poll-interval", "2s"]
    edits += ["--heartbeat-timeout", "30m", "--progress-timeout", "1h"]
    changed = await cli("lanes", "set", "reports", *edits, "--kinds", "report, digest", "--json")
    (lane,) = changed.json
    assert lane["kinds"] == ["report", "digest"]
    assert (lane["slots"], lane["max_total"], lane["order"]) == (7, 9, "strict")
    assert (lane["poll_interval"], lane["heartbeat_timeout"], lane["running"]) == (2.0, 1800.0, 0)
    assert lane["progress_timeout"] == 3600.0
    assert (await app.lanes.get("reports")).max_total == 9
    stale = await cli("lanes", "set", "reports", "--slots", "1", "--version", "1")
    assert stale.code == 1
    assert "someone else changed it" in stale.err


async def test_a_rate_and_ageing_are_set_and_taken_away(cli: Cli, app: Rowlock) -> None:
    await app.lanes.create(Lane("reports"))
    edits = ["--rate", "10/s", "--burst", "20", "--aging-interval", "10m", "--order", "fair"]
    (lane,) = (await cli("lanes", "set", "reports", *edits, "--json")).json
    assert (lane["aging_interval"], lane["order"]) == (600.0, "fair")
    assert lane["rate"] == {"amount": 10, "per": 1.0, "burst": 20, "window": False}
    assert "10/s burst 20" in (await cli("lanes", "ls")).out
    (lane,) = (await cli("lanes", "set", "reports", "--rate", "off", "--aging-interval", "0", "--json")).json
    assert (lane["rate"], lane["aging_interval"]) == (None, None)
    assert (await cli("lanes", "set", "reports", "--rate", "often")).code == 2


async def test_drain_and_resume(cli: Cli, app: Rowlock) -> None:
    await app.lanes.create(Lane("reports"))
    drained = await cli("lanes", "drain", "reports")
    assert drained.code == 0
    assert "drained" in drained.out
    assert not (await app.lanes.get("reports")).enabled
    assert [lane["enabled"] for lane in (await cli("lanes", "resume", "reports", "--json")).json] == [True]


async def test_set_creates_a_lane_only_when_asked(cli: Cli, app: Rowlock) -> None:
    answer = await cli("lanes", "set", "night", "--slots", "3")
    assert answer.code == 1
    assert "There is no lane 'night'" in answer.err
    assert (await cli("lanes", "set", "night", "--slots", "3", "--create")).code == 0
    assert (await app.lanes.get("night")).slots == 3


async def test_unknown_lanes_and_wrong_values_are_explained(cli: Cli, app: Rowlock) -> None:
    await app.lanes.create(Lane("reports"))
    unknown = await cli("lanes", "drain", "report")
    assert unknown.code == 1
    assert "Did you mean 'reports'?" in unknown.err
    for edit, message in ((["--slots", "-1"], "slots"), (["--order", "random"], "order"), ([], "Nothing to change")):
        answer = await cli("lanes", "set", "reports", *edit)
        assert answer.code == 2
        assert message in answer.err


async def test_without_workers_the_list_says_so(cli: Cli) -> None:
    assert (await cli("workers", "ls")).out == "No workers.\n"
    assert (await cli("workers", "ls", "--json")).json == []


async def test_old_names_of_options_still_work_and_help_does_not_show_them(cli: Cli, app: Rowlock) -> None:
    await app.lanes.create(Lane("reports"))
    edits = ["--poll", "2s", "--stale=30m", "--stall-after", "1h", "--age", "10m"]
    (lane,) = (await cli("lanes", "set", "reports", *edits, "--json")).json
    assert [lane[name] for name in ("poll_interval", "heartbeat_timeout", "progress_timeout", "aging_interval")] == [
        2.0,
        1800.0,
        3600.0,
        600.0,
    ]
    shown = (await cli("lanes", "set", "--help")).out
    assert "--poll-interval" in shown
    assert "--stall-after" not in shown
