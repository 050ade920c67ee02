from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from rowlock import InvalidOption, Rowlock, Settings, UnknownKind
from rowlock.model.retention import RetentionRule

if TYPE_CHECKING:
    from tests.desk.conftest import Desk as Stage

DAY = timedelta(days=1)


def declare(app: Rowlock) -> None:
    @app.job(retention={"completed": "1h", "failed": "30d"})
    async def report() -> None: ...

    @app.job
    async def mail() -> None: ...


async def started(app: Rowlock) -> None:
    async with app.worker():
        pass


async def rules(app: Rowlock) -> dict[tuple[str, str], tuple[timedelta, str]]:
    return {(rule.kind, rule.state): (rule.keep, rule.source) for rule in await app.retention.list()}


async def test_the_deployment_overrides_the_code_and_restarts_do_not_bring_it_back(app: Rowlock) -> None:
    declare(app)
    await started(app)
    assert await rules(app) == {
        ("*", "*"): (7 * DAY, "code"),
        ("report", "completed"): (timedelta(hours=1), "code"),
        ("report", "failed"): (30 * DAY, "code"),
    }
    set_to = await app.retention.set("report", "2d", state="completed")
    assert set_to == RetentionRule("report", "completed", 2 * DAY, timedelta(hours=1), 2 * DAY)
    await app.retention.set("mail", "1d")
    await app.retention.set("*", "14d")
    await started(app)
    assert await rules(app) == {
        ("*", "*"): (14 * DAY, "deployment"),
        ("mail", "*"): (DAY, "deployment"),
        ("report", "completed"): (2 * DAY, "deployment"),
        ("report", "failed"): (30 * DAY, "code"),
    }
    assert await app.retention.reset("mail") is None
    back = await app.retention.reset("report", state="completed")
    assert back is not None
    assert (back.keep, back.source) == (timedelta(hours=1), "code")
    seven = await app.retention.reset("*")
    assert seven is not None
    assert seven.keep == 7 * DAY


async def test_changes_are_audited_with_what_they_replaced(app: Rowlock) -> None:
    declare(app)
    await started(app)
    await app.retention.set("report", "2d", state="failed")
    await app.retention.reset("report", state="failed")
    reset, made = (await app.audit.list())[:2]
    assert (made.action, made.target) == ("retention.set", "retention:report:failed")
    assert made.before == {"keep": 2_592_000.0, "source": "code"}
    assert made.after == {"keep": 172_800.0, "source": "deployment"}
    assert (reset.action, reset.after) == ("retention.reset", made.before)


async def test_a_setting_declares_the_default_of_all_kinds(desk: Stage) -> None:
    said = (("*", 3 * DAY), ("failed", 60 * DAY))
    async with Rowlock(desk.app.settings.database_url, settings=Settings(retention=said)) as app:
        await started(app)
        assert await rules(app) == {("*", "*"): (3 * DAY, "code"), ("*", "failed"): (60 * DAY, "code")}
        await app.retention.set("*", "5d")
        await started(app)
        assert (await rules(app))["*", "*"] == (5 * DAY, "deployment")
        back = await app.retention.reset("*")
        assert back is not None
        assert back.keep == 3 * DAY


async def test_mistakes_are_refused(app: Rowlock) -> None:
    declare(app)
    await started(app)
    with pytest.raises(UnknownKind, match=r"There is no kind 'reprot'\. Did you mean 'report'\?"):
        await app.retention.set("reprot", "1d")
    with pytest.raises(InvalidOption, match=r"Retention is for final states: .*completed.*; got 'running'"):
        await app.retention.set("report", "1d", state="running")
    with pytest.raises(InvalidOption, match="keep"):
        await app.retention.set("report", "soon")
    with pytest.raises(InvalidOption, match="longer than 100 years"):
        await app.retention.set("report", "400000d")
    assert await app.retention.reset("nothing") is None


def test_blocking_code_has_the_same_desk(app: Rowlock) -> None:
    assert app.sync.retention.set("*", "3d").keep == 3 * DAY
    assert [rule.keep for rule in app.sync.retention.list()] == [3 * DAY]
