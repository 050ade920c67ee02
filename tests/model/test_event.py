from __future__ import annotations

import pytest

from rowlock.errors import InvalidOption
from rowlock.model.event import ENDS, NAMES, StreamPosition
from rowlock.model.state import FINAL


@pytest.mark.parametrize("text", ["0.0.0.1", "3.0.2.0", "4.1.0.12.end"])
def test_a_position_is_written_as_it_is_read(text: str) -> None:
    assert str(StreamPosition.parse(text)) == text


def test_a_step_alone_is_the_beginning_of_it() -> None:
    assert StreamPosition.parse("7") == StreamPosition.parse("7.0.0.0")


@pytest.mark.parametrize("text", ["", "x", "1.2", "-1", "1.2.3.4.5", "99999999999"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="id of an event of this stream"):
        StreamPosition.parse(text)


def test_every_final_state_has_an_event() -> None:
    assert set(ENDS) == set(FINAL)
    assert set(ENDS.values()) < set(NAMES)
    assert len(set(NAMES)) == len(NAMES)
