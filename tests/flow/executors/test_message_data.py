"""What a child writes is data to its worker, whatever it writes."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from rowlock.flow.enqueue.prepare import prepare
from rowlock.flow.enqueue.workflow_additions import NewStep, WorkflowAddition
from rowlock.flow.executors import child_messages, message_data
from rowlock.flow.executors.message_data import UnreadableMessage, dumps, loads
from rowlock.flow.locks.lock import LockOwner, LockRequest
from rowlock.flow.progress.report import ItemUpdate, ReportSnapshot
from rowlock.model.job import Claim
from rowlock.model.kind import Gate, Kind
from rowlock.model.options import Options
from rowlock.model.outcome import Failed, Outcome, Retried
from rowlock.model.progress import ItemState, LogLine, Phase
from rowlock.model.rate import Rate
from rowlock.model.workflow import Edge

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
SNAPSHOT = ReportSnapshot(
    "build",
    3,
    total=7.5,
    message="half a pair: \ud800, NUL: \0",
    since=NOW,
    phases=(Phase("build", NOW),),
    cursors={"rows": 5},
    items={(Claim(1, 2), "build", "a"): ItemUpdate(ItemState.FAILED, NOW, NOW, "why", "{}")},
    lines=[LogLine(1, NOW, 20, "app", "text")],
)
JOB = prepare(Kind("k", gate=Gate("g", 2), rate=Rate(5, per="1s", key="r")), Options(run_in="5m", tags=["a"]), {})
GROWING = WorkflowAddition(
    1, 2, (NewStep("a", JOB, "{}", any_of=False), NewStep("b", JOB, "{}", any_of=True)), (Edge("a", "b"),)
)
MESSAGES = [
    child_messages.ProgressSnapshot(SNAPSHOT),
    child_messages.AttemptEnded(Retried(timedelta(seconds=2.5), {"type": "OSError", "deaths": 1, "list": [1, None]})),
    child_messages.AttemptEnded(Failed({"message": "x" * 100_000})),
    child_messages.ForwardedLog({"msg": "hello", "levelno": 20, "created": 1.5, "exc_info": None}),
    child_messages.AddSteps(4, GROWING),
    child_messages.AcquireLock(5, LockRequest("n", "k", LockOwner(1, 2, "k"), timeout=timedelta(hours=1))),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written(message: object) -> None:
    assert loads(dumps(message)) == message


def test_steps_that_share_their_options_still_do() -> None:
    again = loads(dumps(child_messages.AddSteps(4, GROWING))).addition
    assert again.steps[0].job is again.steps[1].job


def test_everything_that_a_child_sends_is_listed() -> None:
    listed = set(message_data._classes().values())
    assert set(get_args(child_messages.ToWorker)) | set(get_args(Outcome)) <= listed
    assert not listed & set(get_args(child_messages.ToChild))
    for cls in listed:
        assert is_dataclass(cls) or issubclass(cls, tuple | Enum), cls


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    @override
    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


def test_a_pickle_is_not_unpacked(tmp_path: Path) -> None:
    for data in (pickle.dumps(Evil(tmp_path / "made")), b"\x80\x04N.", b"", b"\xff"):
        with pytest.raises(UnreadableMessage, match="cannot be read"):
            loads(data)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TypeError):
        dumps(Evil(tmp_path))


@pytest.mark.parametrize(
    "text",
    ['["object","Path",["/etc"]]', '["object","LogLine",[1]]', '["again",7]', '["enum","ItemState","x"]',
     '["object","Popen",[["list",["sh"]]]]', '["instant","soon"]', '["list"]', "[" * 5000 + "]" * 5000,
     '["map",[[1]]]'],
)  # fmt: skip
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(UnreadableMessage):
        loads(text.encode())


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=4)))
def test_no_json_makes_the_worker_do_anything_but_refuse_or_read(value: object) -> None:
    with contextlib.suppress(UnreadableMessage):
        loads(json.dumps(value).encode())
