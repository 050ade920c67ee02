"""A seed decides what the nemesis chooses and what producers ask for."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from torture.__main__ import parser
from torture.ledger import SEED
from torture.producer import Producer

from torture.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

ROUND = 14


def mixture(seed: str, name: str = "p2") -> list[str]:
    producer = Producer(name, 0.0, seed)
    return [call.__name__ for call in itertools.islice(producer.mixture(), 2 * ROUND)]


def test_the_same_seed_asks_for_the_same_jobs_in_the_same_order() -> None:
    assert mixture("7") == mixture("7")
    assert mixture("7") != mixture("8")
    assert mixture("7") != mixture("7", "p3")


def test_every_round_has_one_of_everything() -> None:
    first, second = mixture("7")[:ROUND], mixture("7")[ROUND:]
    assert sorted(first) == sorted(second)
    assert first != second
    assert {"_rollback", "_chain", "_later", "_items", "_once"} <= set(first)


def test_a_stage_chooses_by_its_seed_and_tells_it_to_its_producers(tmp_path: Path) -> None:
    class Nowhere:
        def at(self, database: str, _port: int | None = None) -> str:
            return f"postgresql://nowhere/{database}"

    def stage(seed: int) -> Stage:
        return Stage(Nowhere(), "none", tmp_path, seed)  # type: ignore[arg-type]  # nothing is connected

    assert [stage(7).random.random() for _ in range(3)] == [stage(7).random.random() for _ in range(3)]
    assert stage(7).random.random() != stage(8).random.random()
    (tmp_path / "ledger").mkdir()
    shown = stage(7)._start("show", ["env"], None, {})
    shown.popen.wait()
    assert f"{SEED}=7" in shown.said.splitlines()


def test_the_command_line_takes_a_seed() -> None:
    assert parser().parse_args(["--seed", "42"]).seed == 42
    assert parser().parse_args([]).seed is None
