"""Options of a chain, group or workflow, and what is checked before it is enqueued."""

from __future__ import annotations

import pytest
from tests.compose.tasks import clean, extract, four, loose

from rowlock import (
    InvalidOption,
    Workflow,
    chain,
)


def test_four_eyes_need_a_submitter() -> None:
    flow = Workflow("w")
    flow.add(four.step([1]))
    with pytest.raises(InvalidOption, match="Pass submitted_by"):
        flow.check()
    flow.options(submitted_by="ada").check()


def test_options_of_a_workflow() -> None:
    line = chain(extract, clean)
    with pytest.raises(InvalidOption, match='"reject" or "keep"'):
        line.options(on_conflict=loose("replace"))
    with pytest.raises(InvalidOption, match="both given"):
        line.options(session=object(), connection=object())
    with pytest.raises(InvalidOption, match="unique_key must be"):
        line.options(unique_key="")
