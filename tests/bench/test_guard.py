from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from bench.guard import Round
from bench.stage import Failed

from bench import guard

if TYPE_CHECKING:
    from pathlib import Path

BASELINE = {"drain rate": 0.5, "drain processor time": 0.4}


def rounds(rate: float, cost: float, noise: float = 0.0, count: int = 3) -> list[Round]:
    return [Round("drain", (1000 * rate, 1000.0), (20 / cost, 20.0), noise)] * count


def test_a_ratio_near_its_baseline_passes() -> None:
    assert guard.judge(lambda: rounds(0.4, 0.32), BASELINE) == 0


@pytest.mark.parametrize(("rate", "cost"), [(0.3, 0.4), (0.5, 0.25)])
def test_a_quarter_less_fails_after_a_second_look(rate: float, cost: float, capsys: pytest.CaptureFixture[str]) -> None:
    looks = []

    def measured() -> list[Round]:
        looks.append(1)
        return rounds(rate, cost)

    assert guard.judge(measured, BASELINE) == 1
    assert len(looks) == 2
    assert "twice in a row" in capsys.readouterr().err


def test_what_was_slow_only_once_passes() -> None:
    answers = iter([rounds(0.1, 0.4), rounds(0.5, 0.4)])
    assert guard.judge(lambda: next(answers), BASELINE) == 0


def test_another_ratio_that_is_slow_the_second_time_was_not_slow_twice() -> None:
    answers = iter([rounds(0.1, 0.4), rounds(0.5, 0.1)])
    assert guard.judge(lambda: next(answers), BASELINE) == 0


def test_a_busy_machine_is_judged_by_processor_time_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert guard.judge(lambda: rounds(0.1, 0.4, noise=1.0), BASELINE) == 0
    assert "too noisy to judge" in capsys.readouterr().err
    assert guard.judge(lambda: rounds(0.5, 0.1, noise=1.0), BASELINE) == 1


def test_one_bad_round_of_three_changes_no_median() -> None:
    mixed = rounds(0.5, 0.4, count=2) + rounds(0.01, 0.01, count=1)
    assert guard.judge(lambda: mixed, BASELINE) == 0


def test_rates_are_not_recorded_on_a_busy_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BASELINE", tmp_path / "baseline.json")
    with pytest.raises(Failed, match="too busy"):
        guard.record(rounds(0.5, 0.4, noise=1.0))
    guard.record(rounds(0.5, 0.4))
    assert json.loads((tmp_path / "baseline.json").read_text()) == BASELINE
    guard.record(rounds(0.1, 0.3, noise=1.0))
    assert json.loads((tmp_path / "baseline.json").read_text()) == BASELINE | {"drain processor time": 0.3}


def test_the_committed_baseline_has_every_ratio() -> None:
    baseline = json.loads(guard.BASELINE.read_text())
    names = {f"{scene} {what}" for scene in ("drain", "enqueue") for what in ("rate", "processor time")}
    assert baseline.keys() == names
    assert all(0 < value < 2 for value in baseline.values())
