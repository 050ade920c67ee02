from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from bench.results import Reading, Results, Spread, percentile
from bench.targets import judged

from bench import chart, publish, report, roster

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def results() -> Results:
    about = {"settings": "as it comes", "lacks": "", "store": "PostgreSQL"}
    made = Results({"processor": "abacus", "cores": "2"}, {name: dict(about) for name in ("rowlock", "minimal", "saq")})
    made.subjects["oban"] = {**about, "problem": "needs Python 3.12"}
    for number, (ours, theirs) in enumerate([(100.0, 200.0), (50.0, 100.0), (90.0, 100.0)]):
        made.add(Reading("rowlock", "drain", number, {"rate": ours, "wal": 900.0}))
        made.add(Reading("minimal", "drain", number, {"rate": theirs}))
    made.add(Reading("saq", "drain", 0, problem="has no | worker"))
    return made


def test_ratios_are_taken_round_by_round(results: Results) -> None:
    ratio = results.ratio("drain", "rowlock", "minimal")
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high) == (0.5, 0.5, 0.9)


def test_noisy_readings_count_only_when_there_are_no_quiet_ones(results: Results) -> None:
    results.add(Reading("rowlock", "drain", 3, {"rate": 1.0}, noise=1.5))
    spread = results.spread("drain", "rowlock", "rate")
    assert spread is not None
    assert spread.low == 50.0
    results.add(Reading("rowlock", "bulk", 0, {"rate": 7.0}, noise=1.5))
    noisy = results.spread("bulk", "rowlock", "rate")
    assert noisy is not None
    assert noisy.median == 7.0


def test_what_is_missing_is_in_the_report_with_its_reason(results: Results) -> None:
    text = report.markdown(results)
    assert "not measured: needs Python 3.12" in text
    assert "has no \\| worker" in text
    assert "| rowlock | PostgreSQL | – | – | 90 [50–100] |" in text


def test_results_survive_their_file(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path / "latest.json")
    assert Results.load(tmp_path / "latest.json") == results


def test_targets_are_met_missed_or_not_measured(results: Results) -> None:
    found = {target.what: target.met for target in judged(results)}
    assert found["no-op drain against minimal"] is True
    assert found["no-op drain against pgqueuer"] is None
    assert found["drain, WAL bytes per job"] is True


def test_the_chart_is_well_formed_and_shows_everybody_who_was_measured(results: Results) -> None:
    drawn = ET.fromstring(chart.drawn(results))  # noqa: S314 - our own text
    texts = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert {"rowlock", "minimal"} <= set(texts)
    assert "saq" not in texts


def test_the_page_has_a_place_for_every_part_and_is_filled_twice_alike(results: Results) -> None:
    page = publish.PAGE.read_text()
    parts = {name: part(results) for name, part in report.PARTS.items()} | {"chart": "![chart](performance.svg)"}
    assert all(f"<!-- bench:{name} -->" in page for name in parts)
    once = publish.filled(page, parts)
    assert "90 [50–100]" in once
    assert publish.filled(once, parts) == once


def test_a_place_without_a_part_is_refused() -> None:
    with pytest.raises(SystemExit, match="nonsense"):
        publish.filled("<!-- bench:nonsense -->\n<!-- /bench:nonsense -->", {})


def test_subjects_are_chosen_by_name_and_by_group() -> None:
    assert [subject.name for subject in roster.chosen("saq,rowlock")] == ["rowlock", "saq"]
    assert [subject.name for subject in roster.chosen("own")] == ["rowlock", "minimal", "limit"]
    assert len(roster.chosen("all")) == 15
    with pytest.raises(SystemExit, match="nobody"):
        roster.chosen("nobody")


def test_every_subject_says_its_settings_and_every_peer_what_it_leaves_out() -> None:
    assert all(subject.settings for subject in roster.SUBJECTS)
    assert all(subject.lacks for subject in roster.SUBJECTS if subject.is_peer)


def test_percentiles_of_few_values_stay_inside() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0


def test_a_run_goes_on_from_an_earlier_one_and_keeps_every_reading(tmp_path: Path) -> None:
    earlier = Results({"command": "make bench ARGS='one'"}, {"a": {}}, [Reading("a", "drain", 0, {"rate": 10.0})])
    earlier.add(Reading("b", "drain", 0, {"rate": 5.0}))
    later = Results({"command": "make bench ARGS='two'"}, {"b": {}}, kept_in=tmp_path / "latest.json")
    later.go_on_from(earlier)
    later.add(Reading("a", "drain", 0, {"rate": 30.0}))
    later.add(Reading("b", "drain", 0, {"rate": 10.0}))
    kept = Results.load(tmp_path / "latest.json")
    assert kept.ratio("drain", "a", "b") == Spread(2.5, 2.0, 3.0, 2)
    assert kept.machine["earlier"] == "make bench ARGS='one'"
    assert kept.subjects == {"a": {}, "b": {}}
