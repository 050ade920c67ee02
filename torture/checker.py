"""The checker: what a run left behind -> what was promised and not kept. A pure function; nothing here waits or asks.

Bounds are judged by the intervals that handlers wrote down themselves. The right to run ends when the claim does: a
handler that was stopped or cut off and goes on afterwards is allowed to, so its interval is cut where the database
took its claim away. No slack is needed for that: an attempt's end carries the moment its transaction began.

A server may forget what it had acknowledged. What was acknowledged in that stretch is not asked for, and runs that
began in it count for nothing in the history that goes on: their claims may be given out again there, and then only
the new run may be accepted. Everything else is judged as always.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torture.evidence import Evidence, Row
    from torture.ledger import Line

Claim = tuple[int, int]
SUCCESS: Final = frozenset({"completed", "completed_with_errors"})
REVOKED: Final = frozenset({"lost", "disowned", "stopped", "interrupted"})
"""Outcomes that somebody else wrote, or that do not depend on what the handler did."""
SLACK: Final = 0.25
"""Seconds between reading the clock for created_at and meeting the unique index, on a machine that is busy."""
FLUSH: Final = 1.0
"""Seconds from a handler's end to the commit of its outcome, on a machine that is busy."""
TICK: Final = 0.002
"""Seconds by which the ledger's two clocks, read one after the other, may differ."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was not kept."""

    rule: str
    detail: str

    @override
    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


def check(evidence: Evidence) -> list[Violation]:
    """Everything that is wrong, rule by rule; nothing: the run kept every promise."""
    return [Violation(rule, detail) for rule, judge in RULES.items() for detail in judge(evidence)]


def _lost(evidence: Evidence) -> Iterator[str]:
    """Every acknowledged enqueue is there, and is what was asked for."""
    for asked in evidence.asked:
        if asked.answer != "acknowledged" or asked.job is None or evidence.forgot(asked.at):
            continue
        row = evidence.rows.get(asked.job)
        if row is None:
            yield f"job {asked.job} ({asked.kind} {asked.tag}) was acknowledged and is gone"
        elif row.kind != asked.kind:
            yield f"job {asked.job} was acknowledged as {asked.kind} {asked.tag} and is {row.kind} {row.tag}"


def _parked(evidence: Evidence) -> Iterator[str]:
    """After traffic has stopped everything is final, and nobody holds a place."""
    for row in evidence.rows.values():
        if not row.is_final:
            yield f"job {row.id} ({row.kind} {row.tag}) is still {row.state}"
        if row.gate_place:
            yield f"job {row.id} ({row.kind}) has place {row.gate_place} at its gate"
    for key, (_, held) in evidence.gates.items():
        if held:
            yield f"gate {key} counts {held} holders"
    if evidence.open_workflows:
        yield f"{evidence.open_workflows} workflows are open"


def _ends(evidence: Evidence) -> Iterator[str]:
    """Jobs end as they should: what can succeed does, what cannot fails, what is cancelled is so."""
    ends = {**dict.fromkeys(evidence.doomed, "failed"), **dict.fromkeys(evidence.dropped, "cancelled")}
    for row in evidence.rows.values():
        good = row.state == ends[row.kind] if row.kind in ends else row.state in SUCCESS
        if row.is_final and not good:
            yield f"job {row.id} ({row.kind} {row.tag}) ended {row.state} ({row.reason}, {row.losses} losses)"


def _ghosts(evidence: Evidence) -> Iterator[str]:
    """What was rolled back never ran, and is nowhere."""
    gone = {asked.tag for asked in evidence.asked if asked.answer == "rolled back"}
    for line in evidence.lines:
        if line.tag in gone:
            yield f"{line.tag} was rolled back, and job {line.job} ran it"
    for row in evidence.rows.values():
        if row.tag in gone:
            yield f"{row.tag} was rolled back, and is job {row.id}"


def _claims(evidence: Evidence) -> Iterator[str]:
    """Two runs never hold the same claim."""
    starts = Counter((line.job, line.fence) for line in evidence.standing if line.what == "start")
    for (job, fence), n in starts.items():
        if n > 1:
            yield f"job {job} was started {n} times under fence {fence}"


def _outcomes(evidence: Evidence) -> Iterator[str]:
    """Every run has one outcome: it is the job's end, or a row of its own; never both, never neither."""
    recorded = Counter((attempt.job, attempt.fence) for attempt in evidence.attempts)
    last = {(row.id, row.fence - 1) for row in evidence.rows.values() if row.is_final}
    for claim, n in recorded.items():
        if n > 1:
            yield f"job {claim[0]} has {n} outcomes under fence {claim[1]}"
    for line in evidence.standing:
        claim = line.job, line.fence
        row = evidence.rows.get(line.job)
        if line.what == "start" and row is not None and row.is_final and claim not in recorded and claim not in last:
            yield f"job {line.job} ran under fence {line.fence}, and nothing says how that ended"
    for row in evidence.rows.values():
        if row.state in SUCCESS and (row.id, row.fence - 1) in recorded:
            yield f"job {row.id} completed under fence {row.fence - 1}, which had ended before"


def _tokens(evidence: Evidence) -> Iterator[str]:
    """A stored result is what the run under the last claim returned, and that run had come to its end."""
    returned = {(line.job, line.fence): line.token for line in evidence.standing if line.what == "end"}
    # Began in the stretch that was forgotten, but perhaps under a claim that was not.
    begun = {(line.job, line.fence) for line in evidence.standing if line.what == "start"}
    doubtful = {(line.job, line.fence, line.tag, line.token) for line in evidence.lines if line.what == "end"}
    for row in evidence.rows.values():
        if row.state not in SUCCESS:
            continue
        claim = row.id, row.fence - 1
        mine = returned.get(claim)
        if claim not in begun and (*claim, row.tag, row.token) in doubtful:
            continue
        if mine is None:
            yield f"job {row.id} ({row.kind}) completed under fence {row.fence - 1}, whose run did not come to its end"
        elif mine != row.token:
            yield f"job {row.id} has the result {row.token!r}; the run that was accepted returned {mine!r}"


def _repeats(evidence: Evidence) -> Iterator[str]:
    """A run that came to its end is not repeated, unless its claim was taken away; one that started is not disowned."""
    started = {(line.job, line.fence) for line in evidence.standing if line.what == "start"}
    ended = {(line.job, line.fence) for line in evidence.standing if line.what == "end"}
    # Their outcome was accepted, and that was forgotten; it may have been written a moment after the handler's end.
    ends = [line for line in evidence.standing if line.what == "end"]
    started -= {(one.job, one.fence) for one in ends if evidence.forgot(one.at) or evidence.forgot(one.at + FLUSH)}
    for attempt in evidence.attempts:
        claim = attempt.job, attempt.fence
        if attempt.outcome == "disowned" and claim in started:
            yield f"job {claim[0]} was running under fence {claim[1]}, and its worker said it knew nothing of it"
        if claim in ended and attempt.outcome not in REVOKED:
            yield f"job {claim[0]} came to its end under fence {claim[1]}, which counts as {attempt.outcome}"


def _gates(evidence: Evidence) -> Iterator[str]:
    """No more at once than a gate has places."""
    keys = {row.id: row.gate for row in evidence.rows.values() if row.gate}
    for key, runs in _by(keys, evidence).items():
        most, (places, _) = _most(runs), evidence.gates.get(key, (1, 0))
        if most > places:
            yield f"{most} ran at once at gate {key}, which has {places} places"


def _unique(evidence: Evidence) -> Iterator[str]:
    """One live job per key, and so one run."""
    keys = {row.id: row.unique_key for row in evidence.rows.values() if row.unique_key}
    for key, runs in _by(keys, evidence).items():
        if _most(runs) > 1:
            yield f"{_most(runs)} runs at once of the unique key {key}"
    lives: defaultdict[str, list[Row]] = defaultdict(list)
    for row in evidence.rows.values():
        if row.unique_key:
            lives[row.unique_key].append(row)
    for key, rows in lives.items():
        rows.sort(key=lambda row: row.created_at)
        for earlier, later in itertools.pairwise(rows):
            if earlier.finished_at is None or earlier.finished_at > later.created_at + SLACK:
                yield f"jobs {earlier.id} and {later.id} lived at once under the unique key {key}"


def _idempotent(evidence: Evidence) -> Iterator[str]:
    """One job per idempotency key, whoever asked how often."""
    answers: defaultdict[str, set[int]] = defaultdict(set)
    keys = {asked.tag: asked.key for asked in evidence.asked if asked.key}
    for asked in evidence.asked:
        if asked.key and asked.job is not None and not evidence.forgot(asked.at):
            answers[asked.key].add(asked.job)
    for row in evidence.rows.values():
        if row.tag in keys:
            answers[keys[row.tag]].add(row.id)
    for key, found in answers.items():
        if len(found) > 1:
            yield f"the idempotency key {key} stands for jobs {sorted(found)}"


def _slots(evidence: Evidence) -> Iterator[str]:
    """Every slot of a schedule is fired once; none between the first and the last is missing."""
    fired: defaultdict[str, Counter[float]] = defaultdict(Counter)
    for row in evidence.rows.values():
        if row.schedule and row.slot is not None:
            fired[row.schedule][row.slot] += 1
    for name, slots in fired.items():
        for slot, n in slots.items():
            if n > 1:
                yield f"slot {slot:.0f} of {name} was fired {n} times"
        every = evidence.every.get(name)
        expected = 0 if every is None else 1 + round((max(slots) - min(slots)) / every)
        if len(slots) < expected:
            yield f"{name} has {len(slots)} slots where {expected} were due"


def _children(evidence: Evidence) -> Iterator[str]:
    """A step starts after the end of the one before it, which is committed together with its release."""
    first: dict[int, float] = {}
    for line in evidence.standing:
        if line.what == "start":
            first.setdefault(line.job, line.at)
    for upstream, downstream in evidence.edges:
        parent = evidence.rows.get(upstream)
        began = first.get(downstream)
        if parent is None or downstream not in evidence.rows:
            yield f"the edge from job {upstream} to {downstream} leads nowhere"
        elif began is not None and (parent.finished_at is None or began + TICK < parent.finished_at):
            yield f"job {downstream} started before job {upstream}, on which it waits, had ended"


def _items(evidence: Evidence) -> Iterator[str]:
    """Counts of items add up to the items there were."""
    for counts in evidence.counts:
        if counts.in_progress or counts.completed + counts.skipped + counts.failed != counts.total:
            yield f"{counts}: they do not add up"


def _early(evidence: Evidence) -> Iterator[str]:
    """Nothing starts before its time."""
    for line in evidence.standing:
        row = evidence.rows.get(line.job)
        delay = evidence.delays.get(row.kind, 0.0) if row else 0.0
        if row and delay and line.what == "start" and line.at + TICK < row.created_at + delay:
            yield f"job {row.id} started {row.created_at + delay - line.at:.3f} s before its time"


def _by(keys: dict[int, str], evidence: Evidence) -> dict[str, list[tuple[float, float]]]:
    """The intervals in which runs of each key had the right to run."""
    lost = {(attempt.job, attempt.fence): attempt.ended_at for attempt in evidence.attempts}
    ends: dict[Claim, float] = {
        (line.job, line.fence): line.at for line in evidence.standing if line.what in {"end", "told"}
    }
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in evidence.standing:
        if line.what == "start" and line.job in keys:
            until = _until(line, evidence.rows[line.job], ends, lost)
            if until > line.at:
                found[keys[line.job]].append((line.at, until))
    return found


def _until(line: Line, row: Row, ends: dict[Claim, float], lost: dict[Claim, float]) -> float:
    claim = line.job, line.fence
    known = [moment for moment in (ends.get(claim), lost.get(claim)) if moment is not None]
    if row.finished_at is not None:
        known.append(row.finished_at)
    return min(known, default=float("inf"))


def _counted(evidence: Evidence) -> Iterator[str]:
    """Statistics have counted every end once, and nothing else."""
    if evidence.counted is None:
        return
    ended = Counter(row.state for row in evidence.rows.values() if row.is_final)
    if sum(evidence.counted.values()) - evidence.reopened != sum(ended.values()):
        yield f"{dict(evidence.counted)} were counted with {evidence.reopened} started again, and {dict(ended)} ended"
    elif not evidence.reopened and dict(evidence.counted) != ended:
        yield f"{dict(evidence.counted)} were counted, and {dict(ended)} ended"


def _most(runs: Sequence[tuple[float, float]]) -> int:
    """The largest number of intervals that share a moment; one that ends where another begins does not."""
    moments = sorted([(begin, 1) for begin, _ in runs] + [(end, -1) for _, end in runs])
    now = most = 0
    for _, step in moments:
        now += step
        most = max(most, now)
    return most


RULES: Final[dict[str, Callable[[Evidence], Iterable[str]]]] = {
    "acknowledged and lost": _lost,
    "left behind": _parked,
    "wrong end": _ends,
    "rolled back and run": _ghosts,
    "claimed twice": _claims,
    "outcomes": _outcomes,
    "accepted from a stale run": _tokens,
    "run again": _repeats,
    "gate": _gates,
    "unique key": _unique,
    "idempotency key": _idempotent,
    "slots": _slots,
    "children": _children,
    "items": _items,
    "too early": _early,
    "counted": _counted,
}
