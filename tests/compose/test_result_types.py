"""Which results fit which parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from rowlock.compose.result_types import fits


class Row(BaseModel):
    n: int


class Wide(Row):
    m: int


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("given", "taken", "fitting"),
    [
        (int, int, True),
        (bool, int, True),
        (int, float, True),
        (float, int, False),
        (int, bool, False),
        (int, str, False),
        (UUID, str, True),
        (str, UUID, True),
        (list[int], list[int], True),
        (list[int], list[float], True),
        (list[int], list[str], False),
        (tuple[int, ...], list[int], True),
        (list, list[int], True),
        (list[Any], list[int], True),
        (dict[str, int], list[int], False),
        (dict[str, int], Row, True),
        (Row, dict[str, int], True),
        (Wide, Row, True),
        (Row, Wide, False),
        (Point, Row, False),
        (int | None, int, False),
        (int, int | None, True),
        (int | str, int | str | None, True),
        (Any, int, True),
        (int, object, True),
        (type(None), int, False),
        (type(None), int | None, True),
    ],
)
def test_which_results_fit_which_parameters(given: object, taken: object, fitting: bool) -> None:
    assert fits(given, taken) is fitting
