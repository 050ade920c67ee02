from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Rowlock


async def test_retention_is_listed_set_and_reset(cli: Cli, app: Rowlock) -> None:
    @app.job(retention={"failed": "30d"})
    async def report() -> None: ...

    async with app.worker():
        pass
    listed = (await cli("retention", "ls")).out.splitlines()
    assert [line.split() for line in listed] == [
        ["KIND", "STATE", "KEEP", "FROM", "CODE", "SAYS"],
        ["*", "*", "7d", "code", "7d"],
        ["report", "failed", "30d", "code", "30d"],
    ]
    changed = await cli("retention", "set", "report", "2d")
    assert "report  *      2d    deployment" in changed.out
    assert "rules for single states of report still decide for those: failed 30d" in changed.err
    (made,) = (await cli("retention", "set", "report", "1h", "--state", "failed", "--json")).json
    assert made == {"kind": "report", "state": "failed", "keep": 3600, "declared": 2592000, "source": "deployment"}
    (back,) = (await cli("retention", "reset", "report", "--state", "failed", "--json")).json
    assert (back["keep"], back["source"]) == (2592000, "code")
    assert "No rule of its own" in (await cli("retention", "reset", "report")).out


async def test_a_mistyped_kind_or_time_is_refused(cli: Cli) -> None:
    refused = await cli("retention", "set", "nothing", "2d")
    assert "There is no kind 'nothing'" in refused.err
    assert "keep: 'soon'" in (await cli("retention", "set", "*", "soon")).err
