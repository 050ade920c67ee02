"""Messages between processes: their text is shared with the release before."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rowlock.model.notify_messages import (
    LOOK_EVERYWHERE,
    AwaitedEnds,
    CancelRequested,
    ClaimsRevoked,
    DrainRequested,
    LanesEdited,
    LockReleased,
    Message,
    SchedulesEdited,
    WakeUp,
    decode,
    encode,
    encode_wake_up,
)

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
WIRE: list[tuple[Message, str]] = [
    (WakeUp({("mail", 5, 3): MOMENT}), '{"wake":[["mail",5,3,1767225600.0]]}'),
    (WakeUp(), '{"wake":[]}'),
    (CancelRequested(frozenset({2, 1})), '{"cancel":[1,2]}'),
    (ClaimsRevoked(frozenset({1})), '{"lost":[1]}'),
    (AwaitedEnds(frozenset({4, -7})), '{"done":[-7,4]}'),
    (LanesEdited(), '{"lanes":1}'),
    (SchedulesEdited(), '{"schedules":1}'),
    (DrainRequested(frozenset({8})), '{"drain":[8]}'),
    (DrainRequested(None), '{"drain":1}'),
    (LockReleased(-5, 2**62), '{"key":"-5","next":"4611686018427387904"}'),
    (LockReleased(-5, 7, 3), '{"key":"-5","next":"7","n":3}'),
]


@pytest.mark.parametrize(("message", "text"), WIRE, ids=lambda one: type(one).__name__)
def test_a_message_is_written_and_read_as_the_release_before_does(message: Message, text: str) -> None:
    assert encode(message) == text
    assert decode(text) == message


@pytest.mark.parametrize(
    "payload",
    [
        *("", "no JSON", "null", "7", "[]", "{}", '{"tomorrow":1}', '{"wake":7}', '{"wake":[["a",1]]}'),
        *('{"wake":[["a",0,0,1e300]]}', '{"cancel":1}', '{"done":["x"]}', '{"key":"1"}', "[" * 7000),
    ],
)
def test_what_this_release_does_not_know_is_no_message(payload: str) -> None:
    assert decode(payload) is None


def test_a_known_message_may_say_more_in_a_later_release() -> None:
    assert decode('{"cancel":[1],"since":3}') == CancelRequested(frozenset({1}))


def test_a_wake_up_of_too_many_pairs_names_none() -> None:
    some = {(f"kind {n}", 0, 0): MOMENT for n in range(100)}
    assert decode(encode_wake_up(some)) == WakeUp(some)
    assert encode_wake_up({(f"kind {n}", 0, 0): MOMENT for n in range(1000)}) == LOOK_EVERYWHERE


def test_a_message_with_more_workers_than_fit_asks_all_of_them() -> None:
    many = frozenset(range(10**18, 10**18 + 500))
    assert decode(encode(DrainRequested(many))) == DrainRequested(None)


def test_ids_of_jobs_are_never_cut_off_in_silence() -> None:
    with pytest.raises(ValueError, match="7500 bytes"):
        encode(CancelRequested(frozenset(range(10**18, 10**18 + 500))))
