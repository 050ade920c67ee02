"""Calls known from other job queues are answered with Rowlock's own word."""

from __future__ import annotations

import asyncio
import copy
import inspect
import operator
from pathlib import Path
from typing import Any

import pytest

import rowlock
from rowlock import ConfigurationError, Rowlock, Task
from rowlock.model.spelling import other_queues
from rowlock.model.spelling.other_queues import OF_A_TASK, OF_AN_APPLICATION, OF_THE_PACKAGE


@pytest.fixture
def app() -> Rowlock:
    return Rowlock("postgresql://nobody@localhost/nothing")


@pytest.fixture
def report(app: Rowlock) -> Task[..., int]:
    @app.job("reports.build")
    async def build_report(org_id: int) -> int:
        await asyncio.sleep(0)
        return org_id

    return build_report


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("delay", "await build_report.enqueue(…)"),
        ("apply_async", "build_report.options(run_in=…, priority=…)"),
        ("defer", "await build_report.enqueue(…)"),
        ("s", "build_report.step(…)"),
    ],
)
def test_a_call_of_another_queues_task_names_the_call_here(report: Task[..., int], name: str, word: str) -> None:
    for task in (report, report.options(priority=3)):
        with pytest.raises(AttributeError) as caught:
            getattr(task, name)(7)
        assert str(caught.value).startswith(f"The task build_report has no attribute {name!r}. ")
        assert word in str(caught.value)


@pytest.mark.parametrize(("name", "word"), [("enqueue", "@app.job"), ("send_task", "app.jobs.submit(kind, args)")])
def test_a_call_of_another_queues_application_names_the_call_here(app: Rowlock, name: str, word: str) -> None:
    with pytest.raises(AttributeError, match=f"Rowlock has no attribute '{name}'") as caught:
        getattr(app, name)
    assert word in str(caught.value)


@pytest.mark.parametrize("options", [{"bind": True}, {"name": "x"}, {"queue": "mail"}, {"max_retries": 3}])
def test_app_task_used_as_a_decorator_names_app_job(app: Rowlock, options: dict[str, object]) -> None:
    decorate: Any = app.task
    with pytest.raises(ConfigurationError, match=r"decorate the function with @app\.job"):
        decorate(**options)


def test_a_function_decorated_with_app_task_names_app_job(app: Rowlock) -> None:
    decorate: Any = app.task
    with pytest.raises(ConfigurationError, match=r"decorate the function with @app\.job"):
        decorate(lambda: None)


@pytest.mark.parametrize("name", sorted(OF_THE_PACKAGE))
def test_a_name_that_other_packages_export_cannot_be_imported_and_says_what_to_use(name: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from rowlock import {name}", {})  # noqa: S102 - the statement that a user writes
    assert OF_THE_PACKAGE[name] in str(caught.value)


def test_an_unknown_name_is_a_plain_missing_attribute(app: Rowlock, report: Task[..., int]) -> None:
    for owner in (rowlock, app, report):
        assert not hasattr(owner, "xyzzy")
        with pytest.raises(AttributeError, match="xyzzy"):
            operator.attrgetter("xyzzy")(owner)


def test_no_word_from_elsewhere_hides_a_real_one(app: Rowlock, report: Task[..., int]) -> None:
    for owner, words in ((report, OF_A_TASK), (app, OF_AN_APPLICATION), (rowlock, OF_THE_PACKAGE)):
        assert not {name for name, _ in inspect.getmembers_static(owner)} & words.keys()


def test_a_task_can_still_be_copied(report: Task[..., int]) -> None:
    assert copy.copy(report).kind == "reports.build"


@pytest.mark.parametrize(
    ("name", "guide"), [("delay", "celery"), ("defer", "procrastinate"), ("send", None), ("nothing", None)]
)
def test_a_word_of_another_queue_names_the_guide_of_the_move(
    report: Task[..., int], name: str, guide: str | None
) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(report, name)
    assert ("moving_from" in str(caught.value)) == (guide is not None)
    if guide is not None:
        assert f"docs/howto/moving_from_{guide}.md" in str(caught.value)


def test_every_guide_that_is_named_exists_and_its_words_are_known() -> None:
    words = OF_A_TASK.keys() | OF_AN_APPLICATION.keys() | OF_THE_PACKAGE.keys()
    for guide, known in other_queues._GUIDES.items():
        assert (Path(__file__).parents[3] / "docs" / "howto" / f"moving_from_{guide}.md").exists()
        assert set(known) <= words
