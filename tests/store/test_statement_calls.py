"""Every statement that src runs by name exists and gets its parameters; every statement of the sql folder is run.

The source is read, not executed: a call such as `fetch("beat", worker=…)` is compared with the parameters of the
statement `beat`. What `**values` holds is worked out where the source shows it, and listed below where it does not.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rowlock.desk.guard import TRUSTED
from rowlock.model.schedule import Schedule
from rowlock.store import queries
from rowlock.store.queries import Statements
from rowlock.store.rows.schedules import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(queries.__file__).parents[1]
STATEMENTS = Statements("rowlock")

# What two methods of the desk's Guard give to many statements, by the method's name.
BY_METHOD = {"visibility": frozenset(TRUSTED.visibility), "signed": frozenset(TRUSTED.signed("cancel", None, None))}
_SCHEDULE = frozenset(values_of(Schedule("nightly", "report")))
_LOCK = frozenset({"n", "key", "namespace", "name", "job_id", "kind", "process"})
# Statement -> the parameters that its caller makes where the source does not show them.
HIDDEN = {
    # columns_of() makes the columns of a new lane, also for a revision of Alembic.
    "lane_add": frozenset(
        {
            *("name", "kinds", "slots", "max_total", "ordering", "poll_every", "stale_after", "stall_after"),
            *("requires_approval", "rate", "age_every"),
        }
    ),
    # rows.schedules.values_of() makes the columns of a schedule; the desk adds the others.
    "schedule_add": _SCHEDULE | {"submitted_by", "next_at"},
    "schedule_set": _SCHEDULE | {"version", "moves", "next_at"},
    # An attempt to get a lock makes its values once, for both statements.
    "lock_take": _LOCK,
    "lock_wait": _LOCK,
    # The request that was kept with its answer: the values of lock_request.
    "answer_request": frozenset({"job_id", "status", "scope", "key", "digest"}),
    # An id or a name of workers is read in one place.
    "worker_drain": frozenset({"id", "name"}),
    "worker_forget": frozenset({"id", "name"}),
    # The settings of a lane are made from the arguments of set(), and written in its transaction.
    "lane_set": frozenset(
        {
            *("name", "version", "kinds", "slots", "max_total", "ordering", "poll_every", "stale_after", "stall_after"),
            *("requires_approval", "enabled", "rate", "age_every"),
        }
    ),
}
# LockSession.fetch() adds these two to whatever it is given.
LOCK_SESSION = ("flow/locks/process_locks.py", frozenset({"session", "channel"}))
# File -> functions that pass a name on to fetch(): their callers name the statement, and are read instead.
PASSED_ON = {"desk/doctor.py": "_rows", "upkeep/duties.py": "_in_batches", "desk/job_orders.py": "_give"}
# Statements whose names the source composes, and where.
COMPOSED = {
    "enqueue_keep": "store/jobs/enqueue.py",
    "enqueue_once_keep": "store/jobs/enqueue.py",
    "enqueue_replace_live": "store/jobs/enqueue.py",
    "enqueue_replace_waiting": "store/jobs/enqueue.py",
    "enqueue_once_replace_live": "store/jobs/enqueue.py",
    "enqueue_once_replace_waiting": "store/jobs/enqueue.py",
}


# Statements that a verb of store/jobs runs though they are in the sql file of another subject, and that file.
OF_ANOTHER_SUBJECT = {
    "claim": {"lane_rate_enter": "rates", "lane_rate_taken": "rates"},
    "enqueue": {"auto_approve": "control", "wake_inside": "wake"},
    "finish": {"rates_retry_after": "rates"},
    "progress": {"signal_of": "workflows", "workflow_step_of": "workflows"},
}


@dataclass(frozen=True)
class Call:
    """One place that runs a statement. starred: the keys behind **; None: the source does not show them."""

    where: str
    statement: str
    named: frozenset[str]
    starred: frozenset[str] | None

    @property
    def plain(self) -> bool:
        return self.starred == frozenset()


@cache
def modules() -> dict[str, ast.Module]:
    return {
        file.relative_to(SOURCE).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(SOURCE.rglob("*.py"))
    }


@cache
def typed_dicts() -> dict[str, frozenset[str]]:
    found = {}
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "TypedDict" for base in node.bases):
                fields = (item.target for item in node.body if isinstance(item, ast.AnnAssign))
                found[node.name] = frozenset(field.id for field in fields if isinstance(field, ast.Name))
    return found


def names_of(node: ast.expr) -> list[str] | None:
    """The statements that a first argument may name."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        first, second = names_of(node.body), names_of(node.orelse)
        return None if first is None or second is None else first + second
    return None


def keys_of(node: ast.expr, function: ast.AST) -> frozenset[str] | None:
    """The keys of what stands behind **; None: the source does not show them."""
    if isinstance(node, ast.Dict):
        return keys_of_dict(node, function)
    called = node.func if isinstance(node, ast.Call) else node
    if isinstance(called, ast.Attribute):
        return BY_METHOD.get(called.attr)
    return keys_of_name(node.id, function) if isinstance(node, ast.Name) else None


def keys_of_name(name: str, function: ast.AST) -> frozenset[str] | None:
    """The keys of a parameter that is a TypedDict, or of a local name that a dict was assigned to."""
    for inner in ast.walk(function):
        if isinstance(inner, ast.arg) and inner.arg == name and inner.annotation is not None:
            words = ast.unparse(inner.annotation).replace("|", " ").split()
            for word in words:
                if (known := typed_dicts().get(word.rpartition(".")[2])) is not None:
                    return known
        if isinstance(inner, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in inner.targets):
            return keys_of(inner.value, function)
    return None


def keys_of_dict(node: ast.Dict, function: ast.AST) -> frozenset[str] | None:
    found: set[str] = set()
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            inner = keys_of(value, function)
            if inner is None:
                return None
            found |= inner
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.add(key.value)
        else:
            return None
    return frozenset(found)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def calls() -> list[Call]:
    found: dict[tuple[str, int, int, str], Call] = {}
    for file, tree in modules().items():
        passing = {"fetch", "fetch_briefly", PASSED_ON.get(file, "fetch")}
        for function in functions(tree):
            for node in ast.walk(function):
                if not isinstance(node, ast.Call) or not node.args:
                    continue
                called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
                if called not in passing:
                    continue
                # _in_batches(at, name) has the name second.
                first = node.args[1] if called == "_in_batches" else node.args[0]
                for name in names_of(first) or ():
                    found[file, node.lineno, node.col_offset, name] = call_of(file, function, node, name, called)
    return list(found.values())


def call_of(file: str, function: ast.AST, node: ast.Call, name: str, called: str) -> Call:
    named = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
    starred: set[str] | None = set(HIDDEN[name]) if name in HIDDEN else set()
    if called == "_in_batches":
        named |= {"max_losses", "channel"}
        named -= {"why"}
    if file == LOCK_SESSION[0] and name in STATEMENTS and {"session"} & set(STATEMENTS[name].parameters):
        starred = (starred or set()) | LOCK_SESSION[1]
    for keyword in node.keywords:
        if keyword.arg is None and name not in HIDDEN:
            keys = keys_of(keyword.value, function)
            starred = None if keys is None or starred is None else starred | keys
    return Call(f"{file}:{node.lineno}", name, frozenset(named), None if starred is None else frozenset(starred))


def plans() -> Iterator[tuple[str, str, frozenset[str] | None]]:
    """The statements that plans yield, with their values where the source shows them."""
    for file, tree in modules().items():
        for function in functions(tree):
            for node in ast.walk(function):
                if isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
                    for name in names_of(node.value.elts[0]) or ():
                        yield f"{file}:{node.lineno}", name, keys_of(node.value.elts[1], function)


def test_the_source_is_read() -> None:
    assert len(calls()) > 150
    assert len(list(plans())) >= 8


@pytest.mark.parametrize("call", calls(), ids=lambda call: f"{call.statement} at {call.where}")
def test_a_call_gives_its_statement_exactly_its_parameters(call: Call) -> None:
    assert call.statement in set(STATEMENTS), f"{call.where} runs {call.statement!r}, which no .sql file has"
    takes = set(STATEMENTS[call.statement].parameters)
    assert call.starred is not None, f"{call.where}: say in HIDDEN what ** holds, and why it cannot be shown"
    if call.plain:
        assert call.named == takes
    else:
        # One value serves several statements, of which each takes what it needs.
        assert call.named <= takes <= call.named | call.starred


def test_a_plan_gives_its_statement_all_its_parameters() -> None:
    for where, name, given in plans():
        assert name in set(STATEMENTS), where
        assert given is not None, where
        assert set(STATEMENTS[name].parameters) <= given, where


def test_every_statement_is_run_by_the_source() -> None:
    named = {
        node.value
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(STATEMENTS) - named == set(COMPOSED)


def test_a_verb_runs_the_sql_file_of_its_own_name() -> None:
    run = [(call.where, call.statement) for call in calls()]
    run += [(where, statement) for where, statement, _ in plans()]
    run += [(where, statement) for statement, where in COMPOSED.items()]
    home = {
        name: file.removesuffix(".sql")
        for file, text in queries.files().items()
        for name in queries.read({file: text})[0]
    }
    verbs = {(Path(where.partition(":")[0]), name) for where, name in run}
    elsewhere: dict[str, dict[str, str]] = {}
    for file, name in verbs:
        if file.parent == Path("store/jobs") and home[name] != file.stem:
            elsewhere.setdefault(file.stem, {})[name] = home[name]
    assert elsewhere == OF_ANOTHER_SUBJECT


def test_what_is_listed_is_still_there() -> None:
    known = {(call.where.partition(":")[0], call.statement) for call in calls()}
    assert set(HIDDEN) <= {statement for _, statement in known}
    assert set(PASSED_ON) <= modules().keys()
    assert set(COMPOSED.values()) <= modules().keys()
    assert LOCK_SESSION[0] in modules()
