from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock import Gate, Rate

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Rowlock


async def made(app: Rowlock) -> None:
    @app.job("call", gate=Gate("org:7", limit=2), rate=Rate(10).for_key("org:7"))
    async def call() -> None: ...

    await call.enqueue()


async def test_limits_are_listed_shown_and_set(cli: Cli, app: Rowlock) -> None:
    assert "No gates and no rates" in (await cli("limits", "ls")).out
    await made(app)
    listed = (await cli("limits", "ls")).out.splitlines()
    assert [line.split()[:2] for line in listed] == [["KEY", "WHAT"], ["org:7", "gate"], ["org:7", "rate"]]
    gate, rate = (await cli("limits", "show", "org:7", "--json")).json
    assert (gate["what"], gate["limit"], rate["what"]) == ("gate", 2, "rate")
    assert gate["parked"] == {"value": 0, "exact": True}
    assert rate["rate"] == {"amount": 10, "per": 1.0, "burst": 10, "window": False}
    (changed,) = (await cli("limits", "set", "org:7", "--limit", "5", "--fifo", "--json")).json
    assert (changed["limit"], changed["fifo"]) == (5, True)
    (changed,) = (await cli("limits", "set", "org:7", "--rate", "100/1m", "--window", "--json")).json
    assert changed["rate"] == {"amount": 100, "per": 60.0, "burst": None, "window": True}


async def test_a_rate_is_paused_resumed_and_reset(cli: Cli, app: Rowlock) -> None:
    await made(app)
    assert "paused until" in (await cli("limits", "pause", "org:7", "--for", "5m")).out
    (view,) = (await cli("limits", "pause", "org:7", "--until", "2126-01-01", "--json")).json
    assert view["paused_until"].startswith("2126-01-01")
    assert (await cli("limits", "resume", "org:7", "--json")).json[0]["paused_until"] is None
    assert (await cli("limits", "reset", "org:7")).code == 0


async def test_mistakes_are_explained(cli: Cli, app: Rowlock) -> None:
    await made(app)
    for words, code, message in (
        (["show", "org:8"], 1, "no gate and no rate 'org:8'"),
        (["set", "org:7"], 2, "Nothing to change"),
        (["set", "org:7", "--rate", "x"], 2, "10/s"),
        (["set", "org:7", "--limit", "9", "--rate", "0/s"], 2, "amount"),
        (["set", "org:7", "--limit", "9", "--burst", "3"], 2, "add --rate"),
        (["pause", "org:7"], 2, "--for 30s"),
        (["pause", "org:7", "--until", "2020-01-01"], 2, "has passed"),
        (["pause", "org:7", "--until", "soon"], 2, "--until takes a day or an instant"),
        (["rm", "org:7"], 1, "gate 'org:7'"),
    ):
        answer = await cli("limits", *words)
        assert (answer.code, message in answer.err) == (code, True), answer.err
    gate, _ = (await cli("limits", "show", "org:7", "--json")).json
    assert gate["limit"] == 2  # nothing half-written
    assert "closed" in (await cli("limits", "set", "org:7", "--limit", "0")).out
