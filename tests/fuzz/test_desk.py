"""Every method of the desk with strange texts, numbers, ids and moments: an answer, or one of Rowlock's own errors."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz.conftest import Bench, is_clear
from tests.fuzz.profile import PATIENCE, tried
from tests.fuzz.stage import THERE, stage
from tests.fuzz.strange import IDS, MAPPINGS, MOMENTS, NUMBERS, SPANS, TEXTS, json_values, nested

from rowlock import Principal, Rowlock, Window
from rowlock.errors import Forbidden, InvalidId, InvalidOption, JobNotFound, RowlockError
from rowlock.model import ids
from rowlock.model.access import ALL, Permission
from rowlock.model.options import Options
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

_NAME: Final = re.compile(r"job [\w-]+")
HUGE: Final = 10**5000
"""Python refuses to print it."""
SECTIONS: Final = (
    "jobs", "lanes", "limits", "schedules", "workflows", "workers", "approvals", "tokens", "roles", "audit",
    "operations", "stats", "locks",
)  # fmt: skip
NAMED: Final = THERE | TEXTS
KNOWN: Final = {
    "text": st.sampled_from(["", "state:failed", "kind:plain", "tag:a"]) | TEXTS,
    "timeout": st.sampled_from([0, 0.001]),
    "connection": st.none(),
    "n": st.integers(-5, 50) | NUMBERS.filter(lambda n: n < 10**6 or n > 10**9),
    "limit": st.integers(-5, 50) | NUMBERS,
    "permissions": st.lists(st.sampled_from([str(p) for p in Permission]) | TEXTS, max_size=2),
    "payload": json_values() | st.just(object()) | st.just(nested(300)),
    "value": json_values() | st.just(object()),
    "cron": st.sampled_from(["* * * * *", "0 2 * * *"]) | TEXTS,
}
"""By the name of a parameter, where that says more than its type."""
SORTS: Final[dict[str, SearchStrategy[Any]]] = {
    "str": NAMED,
    "int": NUMBERS,
    "bool": st.booleans(),
    "float": st.floats(),
    "int | str": IDS,
    "datetime": MOMENTS,
    "object": json_values(),
    "Span": SPANS,
    "Span | Literal['never']": SPANS | st.just("never"),
    "Duration": SPANS,
    "Lane | str": NAMED,
    "Permission": st.sampled_from(list(Permission)),
    "SeriesBy": st.sampled_from(["kind", "lane"]) | TEXTS,
    "ArgsMatch": st.sampled_from(["exact", "contains"]) | TEXTS,
    "Rate | str": st.sampled_from(["5/s", "off", "0/s"]) | TEXTS,
    "Action": st.sampled_from(["cancel", "retry", "reprioritise", "delete"]) | TEXTS,
    "Ordering": st.sampled_from(["fast", "strict", "fair"]) | TEXTS,
    "Missed": st.sampled_from(["none", "latest", "all"]) | TEXTS,
    "Overlap": st.sampled_from(["queue", "skip", "cancel"]) | TEXTS,
    "Literal['failed']": st.just("failed"),
    "Sequence[Window]": st.lists(st.just(Window("22:00-06:00")), max_size=2),
    "Mapping[str, object]": MAPPINGS,
    "Mapping[str, Any]": MAPPINGS,
    "Mapping[str, object] | Sequence[object]": MAPPINGS | st.lists(json_values(), max_size=2),
    "Connection[Record]": st.none(),
}
OPTIONS: Final = {
    "tenant": TEXTS,
    "tags": st.lists(TEXTS, max_size=2),
    "unique_key": TEXTS,
    "meta": MAPPINGS,
    "gate": TEXTS,
}


def strategy_of(parameter: inspect.Parameter) -> SearchStrategy[Any]:
    if parameter.name in KNOWN:
        return KNOWN[parameter.name]
    text = str(parameter.annotation).replace(" | None", "").replace('"', "'")
    optional = st.none() if "None" in str(parameter.annotation) else st.nothing()
    if text in SORTS:
        return optional | SORTS[text]
    inner = text.partition("[")[2].removesuffix("]")
    if text.startswith(("Iterable[", "Sequence[")):
        several = IDS if "int" in inner else st.sampled_from(list(map(str, State))) | NAMED
        return optional | st.lists(several, max_size=3)
    message = f"no values for {parameter}: add its type to SORTS"
    raise AssertionError(message)


def methods(app: Rowlock) -> Iterator[tuple[str, str]]:
    for section in SECTIONS:
        for name, _ in inspect.getmembers(getattr(app, section), inspect.iscoroutinefunction):
            if not name.startswith("_"):
                yield section, name


def calls(app: Rowlock, section: str, name: str) -> SearchStrategy[dict[str, Any]]:
    given: dict[str, SearchStrategy[Any]] = {}
    optional: dict[str, SearchStrategy[Any]] = {}
    for parameter in inspect.signature(getattr(getattr(app, section), name)).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            optional |= OPTIONS
        elif parameter.default is inspect.Parameter.empty or parameter.name == "timeout":
            given[parameter.name] = strategy_of(parameter)
        else:
            optional[parameter.name] = strategy_of(parameter)
    return st.fixed_dictionaries(given, optional=optional)


APP: Final = Rowlock("postgresql://nowhere/none")
ALL_CALLS: Final = [(section, name, calls(APP, section, name)) for section, name in methods(APP)]
CALLS: Final = st.sampled_from(ALL_CALLS).flatmap(lambda c: st.tuples(st.just(c[0]), st.just(c[1]), c[2]))


@pytest.mark.timeout(PATIENCE)
def test_no_value_leads_to_anything_but_an_answer_or_an_error_of_rowlock(bench: Bench) -> None:
    bench.run(stage(bench))

    async def call(section: str, name: str, values: dict[str, Any]) -> None:
        try:
            await getattr(getattr(bench.app, section), name)(**values)
        except RowlockError as error:
            assert is_clear(error), f"{type(error).__name__}: {error}"

    @tried(250)
    @given(CALLS)
    @example(("jobs", "cancel", {"job_id": 1, "note": "\0"}))
    @example(("jobs", "cancel", {"job_id": 1, "by": "\ud800"}))
    @example(("jobs", "list", {"kind": "\ud800"}))
    @example(("jobs", "list", {"limit": 2**40}))
    @example(("jobs", "list", {"limit": -1}))
    @example(("jobs", "result", {"job_id": 99}))
    @example(("jobs", "edit", {"job_id": 1, "version": 2**70}))
    @example(("jobs", "signal", {"job_id": 1, "name": "a", "payload": object()}))
    @example(("jobs", "signal", {"job_id": 1, "name": "a", "payload": nested(300)}))
    @example(("jobs", "signal", {"job_id": 1, "name": "a", "payload": "\ud800"}))
    @example(("lanes", "create", {"lane": "\0"}))
    @example(("lanes", "create", {"lane": "x" * 3000}))
    @example(("lanes", "set", {"name": "front", "slots": 2**40}))
    @example(("roles", "grant", {"subject": "\0", "role": "platform_admin"}))
    @example(("tokens", "create", {"name": "a", "roles": ["platform_admin"], "subject": "\ud800"}))
    @example(("audit", "list", {"before": 2**70}))
    @example(("audit", "list", {"target": "job:\0"}))
    @example(("operations", "get", {"operation_id": 2**70}))
    @example(("stats", "references", {"name": "a", "value": object()}))
    @example(("approvals", "add_rule", {"kind": "\0"}))
    def one(called: tuple[str, str, dict[str, Any]]) -> None:
        bench.run(call(*called))

    one()


@pytest.mark.timeout(PATIENCE)
def test_ids_of_other_tenants_are_not_found_and_their_jobs_stay_as_they_are(bench: Bench) -> None:
    bench.run(stage(bench))
    mine = {
        Permission.READ,
        Permission.CANCEL,
        Permission.RETRY,
        Permission.EDIT,
        Permission.APPROVE,
        Permission.SUBMIT,
    }
    desk = bench.app.desk(Principal("ada", tenant="acme", permissions=frozenset(mine & set(ALL))))
    theirs = [2, 3]
    take = [
        name
        for name, method in inspect.getmembers(desk.jobs, inspect.iscoroutinefunction)
        if "job_id" in inspect.signature(method).parameters
    ]
    assert {"get", "cancel", "edit", "explain", "history", "logs", "items", "stop", "retry", "delete", "wait"} <= set(
        take
    )

    async def rows() -> str:
        return str(await bench.sql("SELECT string_agg(j::text, '|' ORDER BY id) FROM jobs j WHERE tenant = 'other'"))

    async def ask(name: str, number: int, values: dict[str, Any]) -> None:
        before = await rows()
        for written in (number, str(number), ids.encode(number), ids.encode(number).lower()):
            with pytest.raises((JobNotFound, InvalidId, Forbidden, RowlockError)) as told:
                await getattr(desk.jobs, name)(**{**values, "job_id": written})
            assert is_clear(told.value)
            assert "secret" not in str(told.value)
            if isinstance(told.value, JobNotFound):
                with pytest.raises(JobNotFound) as missing:
                    await getattr(desk.jobs, name)(**{**values, "job_id": 999_999})
                # Nobody learns from the answer that there is such a job.
                assert _NAME.sub("job …", str(missing.value)) == _NAME.sub("job …", str(told.value))
        assert await rows() == before

    by_id = {name: strategy for section, name, strategy in ALL_CALLS if section == "jobs" and name in take}

    @tried(60)
    @given(
        st.sampled_from(sorted(by_id)).flatmap(
            lambda name: st.tuples(st.just(name), st.sampled_from(theirs), by_id[name])
        )
    )
    def one(case: tuple[str, int, dict[str, Any]]) -> None:
        bench.run(ask(*case))

    one()


def test_a_number_that_cannot_be_printed_is_told_all_the_same() -> None:
    for read in (ids.parse, ids.encode, ids.parse_workflow, ids.encode_workflow):
        with pytest.raises(InvalidId, match="a huge one"):
            read(HUGE)
    with pytest.raises(InvalidOption, match=r"priority must be .*; got a int"):
        Options(priority=HUGE)
