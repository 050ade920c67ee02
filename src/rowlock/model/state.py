"""The states of a job, and TRANSITIONS: which verb leads from where to where. SQL and docs are tested against it."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The state of a job."""

    PENDING = "pending"
    """Awaits a person's approval."""
    BLOCKED = "blocked"
    """Awaits a place at its gate, the ends of other jobs, or a signal."""
    QUEUED = "queued"
    """Claimable once run_after has passed; scheduled and retrying jobs are queued too."""
    RUNNING = "running"
    COMPLETED = "completed"
    COMPLETED_WITH_ERRORS = "completed_with_errors"
    FAILED = "failed"
    """The dead-letter state: listable, and a person may retry it."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def is_final(self) -> bool:
        """Whether the job has ended; only a person's retry leads out."""
        return self in FINAL


FINAL = frozenset({State.COMPLETED, State.COMPLETED_WITH_ERRORS, State.FAILED, State.CANCELLED, State.EXPIRED})
WAITING = frozenset({State.PENDING, State.BLOCKED, State.QUEUED})
SUCCESS = frozenset({State.COMPLETED, State.COMPLETED_WITH_ERRORS})


class Verb(StrEnum):
    """What moves a job from one state to another."""

    APPROVE = "approve"
    REJECT = "reject"
    RELEASE = "release"
    CLAIM = "claim"
    PARK = "park"
    COMPLETE = "complete"
    FAIL = "fail"
    SNOOZE = "snooze"
    WAIT = "wait"
    INTERRUPT = "interrupt"
    LOSE = "lose"
    CANCEL = "cancel"
    STOP = "stop"
    EXPIRE = "expire"
    AGE = "age"
    RETRY = "retry"
    EDIT = "edit"


_P, _B, _Q, _R = State.PENDING, State.BLOCKED, State.QUEUED, State.RUNNING
_NONE: frozenset[State] = frozenset()

# verb -> state before -> states it may lead to. A pair that is not here changes nothing. Every entry adds one to the
# fence, with two exceptions: cancel of a running job, which is a request (the job runs until its handler notices), and
# an edit of a job that is pending already.
TRANSITIONS: dict[Verb, dict[State, frozenset[State]]] = {
    Verb.APPROVE: {_P: frozenset({_Q})},
    Verb.REJECT: {_P: frozenset({State.CANCELLED})},
    # pending: a step that needs approval asks for it once the steps before it have ended
    Verb.RELEASE: {_B: frozenset({_Q, _P})},
    Verb.CLAIM: {_Q: frozenset({_R})},
    Verb.PARK: {_Q: frozenset({_B})},
    Verb.COMPLETE: {_R: frozenset({State.COMPLETED, State.COMPLETED_WITH_ERRORS})},
    Verb.FAIL: {_R: frozenset({_Q, State.FAILED})},
    Verb.SNOOZE: {_R: frozenset({_Q})},
    Verb.WAIT: {_R: frozenset({_B})},
    Verb.INTERRUPT: {_R: frozenset({_Q})},
    # hold puts the job before a person: pending, so that approve and reject decide
    Verb.LOSE: {_R: frozenset({_Q, _P, State.FAILED})},
    Verb.CANCEL: {
        _P: frozenset({State.CANCELLED}),
        _B: frozenset({State.CANCELLED}),
        _Q: frozenset({State.CANCELLED}),
        _R: frozenset({_R, State.CANCELLED}),
    },
    Verb.STOP: {state: frozenset({State.CANCELLED}) for state in (_P, _B, _Q, _R)},
    Verb.EXPIRE: {state: frozenset({State.EXPIRED}) for state in (_P, _B, _Q)},
    Verb.AGE: {state: frozenset({State.FAILED}) for state in (_P, _B, _Q, _R)},
    # blocked: steps behind a retried step wait for it again
    Verb.RETRY: {state: frozenset({_Q, _P, _B}) for state in sorted(FINAL)},
    # Only an edit of arguments that need approval is a transition.
    Verb.EDIT: {state: frozenset({_P}) for state in (_P, _B, _Q)},
}


def reachable(verb: Verb, state: State) -> frozenset[State]:
    """The states `verb` may lead to from `state`; empty: the verb does not apply."""
    return TRANSITIONS[verb].get(state, _NONE)
