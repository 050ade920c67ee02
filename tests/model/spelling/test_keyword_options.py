"""An unknown keyword is refused with a suggestion, and signatures stay as they are written."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

from rowlock import ConfigurationError, InvalidOption, Retry, Rowlock, Task
from rowlock.app import _OPTIONS_OF_ONE_CALL
from rowlock.model.options import Options
from rowlock.model.spelling.keyword_options import keyword_options, suggests_options, unknown_option
from rowlock.tasks import _OPTIONS_OF_THE_KIND

JOB = set(keyword_options(Rowlock.job))
OPTIONS = set(keyword_options(Task.options))


@pytest.fixture
def app() -> Rowlock:
    return Rowlock("postgresql://nobody@localhost/nothing")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"retenton": "1h"}, "app.job() has no option 'retenton'. Did you mean 'retention'?"),
        ({"queue": "mail"}, "app.job() has no option 'queue'. Did you mean 'lane'?"),
        ({"time_limit": 5}, "app.job() has no option 'time_limit'. Did you mean 'timeout'?"),
        ({"max_retries": 3}, "app.job() has no option 'max_retries'. Use retry=Retry(attempts="),
        ({"retry_backoff": True}, "app.job() has no option 'retry_backoff'. Use retry=Retry(attempts="),
        ({"bind": True}, "app.job() has no option 'bind'. A handler whose first parameter is `ctx: Context`"),
        ({"countdown": 3}, "app.job() has no option 'countdown'. Did you mean 'run_in'? It is an option of one call"),
        ({"unique_key": "k"}, "app.job() has no option 'unique_key'. It is an option of one call: task.options("),
        (
            {"uniqe_key": "k"},
            "app.job() has no option 'uniqe_key'. It is an option of one call: task.opt",
        ),
        ({"name": "n"}, "app.job() has no option 'name'. Pass the name of the kind first"),
        ({"xyzzy": 1}, "app.job() has no option 'xyzzy'. It has aliases, approval, delivery"),
    ],
)
def test_a_wrong_option_of_a_kind_gets_a_suggestion(app: Rowlock, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        app.job(**given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"priorty": 1}, "options() has no option 'priorty'. Did you mean 'priority'?"),
        ({"countdown": 5}, "options() has no option 'countdown'. Did you mean 'run_in'?"),
        ({"eta": None}, "options() has no option 'eta'. Did you mean 'run_at'?"),
        ({"lane": "mail"}, "options() has no option 'lane'. It is an option of the kind: @app.job(lane=…)."),
        ({"queue": "mail"}, "options() has no option 'queue'. Did you mean 'lane'? It is an option of the kind: @app"),
        (
            {"max_retries": 3},
            "options() has no option 'max_retries'. Did you mean 'retry'? It is an option of the kind",
        ),
        ({"bind": True}, "options() has no option 'bind'. A handler whose first parameter is `ctx: Context`"),
    ],
)
def test_a_wrong_option_of_a_call_gets_a_suggestion(app: Rowlock, given: dict[str, Any], message: str) -> None:
    @app.job
    async def work() -> None: ...

    with pytest.raises(InvalidOption) as caught:
        work.options(**given)
    assert str(caught.value).startswith(message)


def test_a_wrong_option_of_a_retry_gets_a_suggestion() -> None:
    wrong: Any = {"minimun": "1s"}
    with pytest.raises(InvalidOption, match=r"Retry\(\) has no option 'minimun'. Did you mean 'minimum'\?"):
        Retry(**wrong)


def test_an_error_inside_the_function_is_its_own() -> None:
    @suggests_options("work()")
    def work(*, size: int) -> int:
        return size + "1"  # type: ignore[operator]  # the error

    with pytest.raises(TypeError, match="unsupported operand"):
        work(size=1)


def test_every_option_is_in_the_signature_with_its_type_and_default(app: Rowlock) -> None:
    signature = inspect.signature(app.job)
    options = [one for one in signature.parameters.values() if one.kind is inspect.Parameter.KEYWORD_ONLY]
    assert len(options) == 21
    assert not [one.name for one in options if inspect.Parameter.empty in (one.annotation, one.default)]
    assert str(signature.parameters["retention"]) == "retention: 'Span | Mapping[str, Span] | None' = None"
    assert not [one for one in signature.parameters.values() if one.kind is inspect.Parameter.VAR_KEYWORD]
    assert {one.name for one in fields(Options)} | {"connection", "session"} == OPTIONS
    assert next(iter(inspect.signature(Retry).parameters)) == "attempts"


@pytest.mark.parametrize("function", [Rowlock.job, Task.options])
def test_every_option_has_a_line_in_the_docstring(function: Any) -> None:  # noqa: ANN401 - methods
    lines = (inspect.getdoc(function) or "").splitlines()
    documented = [name for line in lines if "  " in line for name in line.partition("  ")[0].split(", ")]
    assert [name for name in documented if name] == keyword_options(function)


def test_hints_name_the_options_that_only_the_other_call_has() -> None:
    assert set(_OPTIONS_OF_ONE_CALL) == OPTIONS - JOB
    assert set(_OPTIONS_OF_THE_KIND) == JOB - OPTIONS


def test_without_anything_similar_all_options_are_listed() -> None:
    assert unknown_option("f()", "zzz", ["b", "a"]) == "f() has no option 'zzz'. It has a, b."
