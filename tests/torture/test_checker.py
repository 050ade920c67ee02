"""Hand-made bad ledgers: each kind of violation is caught, and a good run has none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from torture.checker import RULES, check
from torture.evidence import Attempt, Counts, Evidence, Row
from torture.ledger import Asked, Ledger, Line, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def row(number: int, **fields: Any) -> Row:  # noqa: ANN401 - any field
    given = {"kind": "plain", "state": "completed", "fence": 2, "created_at": 10.0, "finished_at": 12.0}
    return Row(number, **{**given, "tag": f"t{number}", "token": f"1:{number}", **fields})


def line(what: str, job: int, at: float, fence: int = 1, tag: str | None = None) -> Line:
    return Line(what, job, fence, tag or f"t{job}", at, 100, f"{fence}:{job}" if what == "end" else "")


def acknowledged(job: int, **fields: Any) -> Asked:  # noqa: ANN401 - any field
    return replace(Asked(f"t{job}", "plain", "acknowledged", 10.0, job), **fields)


GOOD = Evidence(
    lines=[
        line("start", 1, 11.0), line("end", 1, 11.5),
        line("start", 2, 11.0), line("start", 2, 16.0, fence=3), line("end", 2, 16.5, fence=3), line("end", 2, 17.0),
        line("start", 3, 12.5), line("end", 3, 12.9),
        line("start", 4, 21.0), line("end", 4, 21.5),
        line("start", 5, 22.5), line("end", 5, 22.9),
        line("start", 6, 30.5), line("start", 7, 31.0), line("end", 7, 31.1),
    ],
    asked=[
        acknowledged(1), acknowledged(2), acknowledged(3), acknowledged(1, tag="again", key="k"),
        acknowledged(1, tag="again", key="k"), Asked("gone", "joined", "rolled back", 10.0),
        Asked("?", "plain", "unknown", 10.0),
    ],
    rows={
        1: row(1),
        # Lost at 15, run again, and its zombie ends after that: allowed.
        2: row(2, fence=4, finished_at=18.0, token="3:2", gate="g"),  # noqa: S106 - no secret
        3: row(3, finished_at=13.0, gate="g"),
        4: row(4, created_at=20.0, finished_at=22.0, unique_key="u", schedule="ticks", slot=60.0),
        5: row(5, created_at=22.0, finished_at=23.0, unique_key="u", schedule="ticks", slot=120.0),
        6: row(6, kind="exits", state="failed", token="", created_at=30.0, finished_at=31.0),
        7: row(7, kind="later", created_at=30.0, finished_at=32.0),
    },
    attempts=[Attempt(2, 1, "lost", 15.0)],
    edges=[(1, 3), (4, 5)],
    counts=[Counts(1, 0, 3, 1, 1, 5)],
    gates={"g": (2, 0)},
    every={"ticks": 60.0},
    doomed=frozenset({"exits"}),
    delays={"later": 1.0},
)  # fmt: skip


def with_rows(evidence: Evidence, *rows: Row) -> Evidence:
    return replace(evidence, rows={**evidence.rows, **{one.id: one for one in rows}})


def with_lines(evidence: Evidence, *lines: Line) -> Evidence:
    return replace(evidence, lines=sorted([*evidence.lines, *lines], key=lambda one: one.at))


def without_row(evidence: Evidence, job: int) -> Evidence:
    return replace(evidence, rows={number: row for number, row in evidence.rows.items() if number != job})


BAD: list[tuple[str, Callable[[Evidence], Evidence], str]] = [
    ("acknowledged and lost", lambda e: replace(e, asked=[*e.asked, acknowledged(99)]), "job 99"),
    ("acknowledged and lost", lambda e: with_rows(e, row(1, kind="other")), "and is other"),
    ("left behind", lambda e: with_rows(e, row(1, state="queued", finished_at=None)), "still queued"),
    ("left behind", lambda e: with_rows(e, row(1, state="running", finished_at=None)), "still running"),
    ("left behind", lambda e: with_rows(e, row(1, gate_place=1)), "has place 1"),
    ("left behind", lambda e: replace(e, gates={"g": (2, 1)}), "counts 1 holders"),
    ("left behind", lambda e: replace(e, open_workflows=1), "1 workflows are open"),
    ("counted", lambda e: replace(e, counted={"completed": len(e.rows) + 1}), "were counted"),
    ("counted", lambda e: replace(e, counted={"cancelled": len(e.rows)}), "were counted"),
    ("wrong end", lambda e: with_rows(e, row(1, state="failed")), "ended failed"),
    ("wrong end", lambda e: with_rows(e, row(6, kind="exits")), "ended completed"),
    ("wrong end", lambda e: replace(e, dropped=frozenset({"later"})), "job 7 (later t7) ended completed"),
    ("rolled back and run", lambda e: with_lines(e, line("start", 8, 11.0, tag="gone")), "ran it"),
    ("rolled back and run", lambda e: with_rows(e, row(1, tag="gone")), "is job 1"),
    ("claimed twice", lambda e: with_lines(e, line("start", 1, 11.2)), "2 times under fence 1"),
    ("outcomes", lambda e: replace(e, attempts=[*e.attempts, Attempt(2, 1, "failed", 16.0)]), "2 outcomes under fence"),
    ("outcomes", lambda e: replace(e, attempts=[*e.attempts, Attempt(1, 1, "lost", 11.9)]), "which had ended before"),
    ("outcomes", lambda e: with_lines(e, line("start", 3, 12.1, fence=0)), "nothing says how that ended"),
    ("accepted from a stale run", lambda e: with_rows(e, replace(e.rows[2], token="1:9")), "has the result"),  # noqa: S106
    ("accepted from a stale run", lambda e: with_rows(e, row(1, fence=3)), "whose run did not come to its end"),
    ("accepted from a stale run", lambda e: replace(e, lines=[e.lines[0], *e.lines[2:]]), "did not come to its end"),
    ("run again", lambda e: replace(e, attempts=[Attempt(2, 1, "disowned", 15.0)]), "knew nothing of it"),
    ("run again", lambda e: replace(e, attempts=[Attempt(2, 1, "failed", 15.0)]), "counts as failed"),
    ("gate", lambda e: replace(e, gates={"g": (1, 0)}), "2 ran at once at gate g"),
    ("unique key", lambda e: with_rows(e, replace(e.rows[5], created_at=21.0)), "jobs 4 and 5 lived at once"),
    ("unique key", lambda e: with_lines(e, line("start", 5, 21.2)), "2 runs at once of the unique key u"),
    ("idempotency key", lambda e: replace(e, asked=[*e.asked, acknowledged(2, tag="again", key="k")]), "jobs [1, 2]"),
    ("idempotency key", lambda e: with_rows(e, row(3, tag="again")), "jobs [1, 3]"),
    ("slots", lambda e: with_rows(e, replace(e.rows[5], slot=60.0)), "fired 2 times"),
    ("slots", lambda e: with_rows(e, replace(e.rows[5], slot=180.0)), "2 slots where 3 were due"),
    ("children", lambda e: replace(e, edges=[*e.edges, (4, 3)]), "started before job 4"),
    ("children", lambda e: replace(e, edges=[*e.edges, (1, 98)]), "leads nowhere"),
    ("items", lambda e: replace(e, counts=[Counts(1, 1, 3, 1, 0, 5)]), "do not add up"),
    ("items", lambda e: replace(e, counts=[Counts(1, 0, 3, 1, 0, 5)]), "do not add up"),
    ("too early", lambda e: with_lines(e, line("start", 7, 30.9)), "before its time"),
]  # fmt: skip


def test_a_good_run_has_no_violation() -> None:
    assert check(GOOD) == []


@pytest.mark.parametrize(("rule", "spoil", "said"), BAD, ids=[f"{rule}-{n}" for n, (rule, _, _) in enumerate(BAD)])
def test_each_kind_of_violation_is_caught(rule: str, spoil: Callable[[Evidence], Evidence], said: str) -> None:
    found = check(spoil(GOOD))
    assert any(violation.rule == rule and said in violation.detail for violation in found), found


def test_every_rule_has_a_ledger_that_breaks_it() -> None:
    assert {rule for rule, _, _ in BAD} == RULES.keys()


def test_what_a_zombie_does_after_its_claim_was_taken_does_not_count_against_a_gate() -> None:
    # Job 2's first run writes on until 17.0; its claim ended at 15.0. Another holder from 15.5 on is within the limit.
    beside = with_rows(GOOD, row(8, gate="g", created_at=14.0, finished_at=17.0))
    beside = with_lines(beside, line("start", 8, 15.5), line("end", 8, 16.9))
    assert check(beside) == []
    assert [v.rule for v in check(replace(beside, gates={"g": (1, 0)}))] == ["gate"]


def run_of(
    job: int, at: float, token: str, *, tag: str | None = None, run: str = "new", until: float = 0.5
) -> list[Line]:
    lines = [line("start", job, at, tag=tag), line("end", job, at + until, tag=tag)]
    return [replace(one, run=run, token=token if one.what == "end" else "") for one in lines]


# The server has forgotten what it acknowledged between 40 and 50.
FORGETFUL = replace(
    with_lines(
        with_rows(GOOD, row(8, created_at=51.0, finished_at=54.0, token="new"), row(9, fence=4, token="3:9")),  # noqa: S106 - no secrets
        # Claimed and begun in the stretch, as a job that is gone; its id and fence are another job's now.
        *run_of(8, 44.0, "old", tag="gone with it", run="old", until=12.0),
        *run_of(8, 52.0, "new"),
        # Begun before the stretch and finished in it, which was forgotten: disowned, and run again.
        *run_of(9, 39.0, "1:9", until=0.9), line("start", 9, 53.0, fence=3), line("end", 9, 53.5, fence=3),
    ),
    asked=[
        *GOOD.asked, acknowledged(99, at=45.0),
        acknowledged(98, at=45.0, key="k2"), acknowledged(3, at=55.0, key="k2"),
    ],
    attempts=[*GOOD.attempts, Attempt(9, 1, "disowned", 51.0)],
    forgotten=(40.0, 50.0),
)  # fmt: skip
WORSE: list[tuple[str, Callable[[Evidence], Evidence], str]] = [
    ("acknowledged and lost", lambda e: replace(e, asked=[*e.asked, acknowledged(97, at=39.9)]), "job 97"),
    ("acknowledged and lost", lambda e: replace(e, asked=[*e.asked, acknowledged(97, at=50.1)]), "job 97"),
    ("accepted from a stale run", lambda e: with_rows(e, replace(e.rows[8], token="old")), "'old'"),  # noqa: S106
    ("claimed twice", lambda e: with_lines(e, line("start", 8, 51.5)), "2 times under fence 1"),
    ("outcomes", lambda e: with_rows(e, replace(e.rows[9], fence=6)), "nothing says how that ended"),
    ("run again", lambda e: replace(e, forgotten=(41.5, 50.0)), "knew nothing of it"),
    ("left behind", lambda e: with_rows(e, replace(e.rows[9], state="running", finished_at=None)), "still running"),
    ("idempotency key", lambda e: replace(e, asked=[*e.asked, acknowledged(2, at=56.0, key="k2")]), "jobs [2, 3]"),
]


def test_what_the_server_has_forgotten_is_not_asked_for() -> None:
    assert check(FORGETFUL) == []


@pytest.mark.parametrize(("rule", "spoil", "said"), WORSE, ids=[f"{rule}-{n}" for n, (rule, _, _) in enumerate(WORSE)])
def test_everything_else_is_judged_as_always(rule: str, spoil: Callable[[Evidence], Evidence], said: str) -> None:
    found = check(spoil(FORGETFUL))
    assert any(violation.rule == rule and said in violation.detail for violation in found), found


def test_a_run_that_began_in_the_stretch_may_count_if_its_claim_was_kept() -> None:
    kept = with_lines(with_rows(FORGETFUL, row(10, token="kept")), *run_of(10, 41.0, "kept"))  # noqa: S106 - no secret
    assert check(kept) == []
    other = with_rows(kept, row(10, token="kept", tag="another job's"))  # noqa: S106 - no secret
    assert [violation.rule for violation in check(other)] == ["accepted from a stale run"]


def test_the_ledger_keeps_every_line_of_every_process(tmp_path: Path) -> None:
    one, two = Ledger(tmp_path), Ledger(tmp_path)
    entries: list[Line | Asked] = [line("start", 1, 1.0), acknowledged(1), line("end", 1, 2.0)]
    for ledger, entry in zip((one, two, one), entries, strict=True):
        ledger.note(entry)
    assert sorted(read(tmp_path), key=repr) == sorted(entries, key=repr)
