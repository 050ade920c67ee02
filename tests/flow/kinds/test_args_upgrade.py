from __future__ import annotations

import json
from datetime import date
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, SecretStr

from rowlock import Context, Rowlock
from rowlock.errors import ConfigurationError, InvalidArguments, UnreadableArguments
from rowlock.flow.kinds.codec import Codec
from rowlock.flow.kinds.handler import Handler
from rowlock.flow.run.verdict import Verdict
from rowlock.model.kind import Kind
from rowlock.model.stored_args import shown

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 100_000
HUSH = SecretStr("hush")


class Period(BaseModel):
    first: date
    last: date


async def first_secret(key: SecretStr = HUSH) -> None: ...
async def first_report(org: str) -> None: ...
async def second_report(org_id: int) -> None: ...
async def third_report(org_id: int, period: Period, key: SecretStr | None = None, blob: bytes = b"") -> None: ...


def codec(function: Callable[..., object], **says: Any) -> Codec:  # noqa: ANN401 - the kind's own
    return Codec.of(function, context_types=(Context,), kind=Kind("report", **says), limit=LIMIT)


def third() -> Codec:
    made = codec(third_report, version=3)

    def numbered(args: dict[str, Any]) -> dict[str, Any]:
        return {"org_id": int(args.pop("org")), **args}

    def with_period(args: dict[str, Any]) -> dict[str, Any]:
        year = args.pop("year", 2026)
        return {**args, "period": {"first": date(year, 1, 1), "last": f"{year}-12-31"}}

    made.upgrades.add(1, numbered)
    made.upgrades.add(2, with_period)
    return made


def unreadable(made: Codec, text: str) -> UnreadableArguments:
    with pytest.raises(UnreadableArguments) as caught:
        made.decode(text)
    return caught.value


def test_only_versions_above_one_are_stored() -> None:
    assert codec(second_report).encode((7,)) == '{"org_id":7}'
    assert codec(second_report, version=2).encode((7,)) == '{"$version":2,"org_id":7}'

    async def nothing() -> None: ...

    assert codec(nothing, version=2).encode() == '{"$version":2}'
    assert codec(nothing, version=2).decode('{"$version": 2}') == {}


def test_the_version_is_no_argument() -> None:
    made = codec(second_report, version=2)
    assert made.decode('{"$version": 2, "org_id": 7}') == {"org_id": 7}
    assert made.encode_many([{"org_id": 1}, {"org_id": 2}]) == [made.encode((1,)), made.encode((2,))]
    with pytest.raises(InvalidArguments, match="there is no argument"):
        made.encode((7,), {"$version": 1})


def test_arguments_travel_through_three_versions() -> None:
    whole = {"org_id": 7, "period": Period(first=date(2026, 1, 1), last=date(2026, 12, 31))}
    assert third().decode(codec(first_report).encode(("7",))) == whole
    assert third().decode(codec(second_report, version=2).encode((7,))) == whole
    today = third()
    assert today.decode(today.encode((), whole)) == whole


def test_secrets_and_bytes_pass_through_an_upgrade_untagged() -> None:
    stored = '{"$version": 2, "org_id": 7, "key": {"$secret": "hunter2"}, "blob": {"$bytes": "/w=="}}'
    arguments = third().decode(stored)
    assert arguments["blob"] == b"\xff"
    assert isinstance(arguments["key"], SecretStr)
    assert arguments["key"].get_secret_value() == "hunter2"


def test_a_nested_key_that_looks_like_a_version_is_left_alone() -> None:
    async def keep(data: dict[str, int]) -> None: ...

    assert codec(keep).decode('{"data": {"$version": 9}}') == {"data": {"$version": 9}}


def test_newer_arguments_wait_for_newer_code() -> None:
    error = unreadable(codec(first_report), codec(second_report, version=2).encode((7,)))
    assert str(error) == (
        "report: the arguments have version 2, this code reads up to 1. They wait for a worker with newer code."
    )
    assert error.cause == "version 2 is newer than 1"


def test_a_missing_step_names_what_to_declare() -> None:
    error = unreadable(codec(third_report, version=3), '{"org": "7"}')
    assert "@….upgrade(from_version=1)" in str(error)
    assert error.cause == "no upgrade from version 1"
    assert unreadable(third(), '{"$version": "new"}').cause == "no upgrade from version 0"


def test_an_upgrade_that_raises_is_named_without_the_values_in_its_cause() -> None:
    error = unreadable(third(), '{"org": "seven"}')
    assert "numbered, raised ValueError: invalid literal" in str(error)
    assert error.cause == "upgrade from version 1: ValueError"
    assert isinstance(error.__cause__, ValueError)


def test_an_upgrade_that_forgets_its_return_is_told() -> None:
    made = codec(second_report, version=2)
    made.upgrades.add(1, lambda args: args.clear())
    assert "Does it end with return?" in str(unreadable(made, '{"org": "7"}'))


def test_what_an_upgrade_returns_is_checked_like_any_arguments() -> None:
    made = codec(second_report, version=2)
    made.upgrades.add(1, lambda args: {"org_id": args["org"]})
    assert "argument 'org_id' should fit org_id: int, got 'x'" in str(unreadable(made, '{"org": "x"}'))
    made = codec(second_report, version=2)
    made.upgrades.add(1, lambda _: {"org_id": object()})
    assert "object" in str(unreadable(made, '{"org": "x"}'))


def test_unknown_arguments_are_refused_or_ignored_by_policy() -> None:
    stored = '{"org_id": 7, "colour": "red"}'
    error = unreadable(codec(second_report), stored)
    assert "there is no argument 'colour' in report(org_id: int)" in str(error)
    assert error.cause == "colour: extra forbidden"
    assert codec(second_report, unknown_args="ignore").decode(stored) == {"org_id": 7}


def test_a_policy_for_stored_arguments_does_not_excuse_the_caller() -> None:
    with pytest.raises(InvalidArguments, match="there is no argument 'colour'"):
        codec(second_report, unknown_args="ignore").encode((7,), {"colour": "red"})


def test_the_cause_is_the_same_for_all_jobs_with_the_problem() -> None:
    made = codec(second_report)
    causes = {unreadable(made, json.dumps({"org_id": value})).cause for value in ("x", "y", "z")}
    assert causes == {"org_id: int parsing"}
    assert unreadable(made, "{}").cause == "org_id: missing"


def test_every_worker_looks_once_then_ever_more_rarely_up_to_five_minutes() -> None:
    made = codec(second_report)
    handler = Handler(Kind("report"), made, second_report)
    error = unreadable(made, "{}")
    delays = []
    unread = None
    for worker in (1, 2, 3, 1, 3, 1, *[2] * 20):
        row = {"unread": unread, "args": "{}", "claimed_by": worker}
        outcome = Verdict(row, handler, Random(1)).unreadable(error)  # noqa: S311 - no secret
        assert "traceback" not in outcome.error
        unread = json.dumps(outcome.error["unreadable"])
        delays.append(outcome.delay.total_seconds())
    assert json.loads(unread or "") == {"times": 26, "workers": [1, 2, 3]}
    assert delays[:3] == [1, 1, 1]
    wanted = [min(300.0, 5.0 * 2**n) for n in range(23)]
    assert all(0.8 * most <= delay <= most for delay, most in zip(delays[3:], wanted, strict=True))


def test_steps_that_lead_nowhere_are_refused_at_once() -> None:
    app = Rowlock("postgresql://nowhere/x")

    @app.job(version=2)
    async def report(org_id: int) -> None: ...

    for step in (0, 2, 3):
        with pytest.raises(ConfigurationError, match="an upgrade starts from 1 to 1; got from_version="):
            report.upgrade(from_version=step)(lambda args: args)

    @report.upgrade(from_version=1)
    def numbered(args: dict[str, Any]) -> dict[str, Any]:
        return args

    assert report.upgrade(from_version=1)(numbered) is numbered
    with pytest.raises(ConfigurationError, match=r"declared twice, by .*numbered and .*lambda"):
        report.upgrade(from_version=1)(lambda args: args)

    with pytest.raises(ConfigurationError, match="not async def"):

        @report.upgrade(from_version=1)  # type: ignore[type-var]
        async def waiting(args: dict[str, Any]) -> dict[str, Any]:
            return args


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ({"version": 0}, "version counts the shapes of the arguments from 1 on; got 0"),
        ({"version": "2"}, "got '2'"),
        ({"unknown_args": "drop"}, 'unknown_args must be "refuse" or "ignore"'),
        ({"aliases": "old"}, "write aliases=\\('old',\\)"),
        ({"aliases": ("report",)}, "aliases are the names it had before"),
        ({"aliases": ("old", "old")}, "each once"),
        ({"aliases": ("",)}, "A kind is named with letters"),
    ],
)
def test_impossible_declarations_are_refused(says: dict[str, Any], message: str) -> None:
    app = Rowlock("postgresql://nowhere/x")
    with pytest.raises(ConfigurationError, match=message):
        app.job("report", **says)(second_report)


def test_two_kinds_may_not_share_a_name() -> None:
    app = Rowlock("postgresql://nowhere/x")
    app.job("new", aliases=("old", "older"))(first_report)
    with pytest.raises(ConfigurationError, match="'old' is declared twice: as an alias of 'other' and as an alias of"):
        app.job("other", aliases=("old",))(second_report)
    with pytest.raises(ConfigurationError, match="'old' is declared twice: as the name of a kind and as an alias of"):
        app.job("old")(second_report)
    with pytest.raises(ConfigurationError, match="'new' is declared twice: as an alias of 'x' and as the name of"):
        app.job("x", aliases=("new",))(second_report)
    assert sorted(app.handlers) == ["new", "old", "older"]


def test_a_module_imported_again_may_change_its_aliases() -> None:
    app = Rowlock("postgresql://nowhere/x")
    app.job("new", aliases=("old", "older"))(first_report)
    app.job("new", aliases=("older", "oldest"))(first_report)
    assert sorted(app.handlers) == ["new", "older", "oldest"]


def test_defaults_are_added_to_arguments_of_the_present_version_alone() -> None:
    made, secret = third(), codec(first_secret)
    given = made.encode_named({"org_id": 7, "period": {"first": "2026-01-01", "last": "2026-12-31"}})
    assert json.loads(made.completed(given)).keys() == {"$version", "org_id", "period", "key", "blob"}
    assert made.completed('{"org":"7"}') == '{"org":"7"}', "the names of another signature"
    assert made.completed('{"$version":3}') == '{"$version":3}', "the handler cannot read it either"
    assert "hush" not in json.dumps(shown(json.loads(secret.completed("{}"))))
