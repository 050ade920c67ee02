from __future__ import annotations

from rowlock.store.schema.migration_files import migrations, newest, path, script


def test_steps_are_numbered_without_a_gap_and_each_can_be_undone() -> None:
    steps = migrations()
    assert [step.version for step in steps] == list(range(1, newest() + 1))
    assert all(step.down.strip() for step in steps)


def test_a_path_goes_up_in_order_and_down_in_reverse() -> None:
    top = newest()
    assert [(step.version, up) for step, up in path(top - 2, top)] == [(top - 1, True), (top, True)]
    assert [(step.version, up) for step, up in path(top, top - 2)] == [(top, False), (top - 1, False)]
    assert path(top, top) == []


def test_a_script_is_for_the_schema_that_was_named() -> None:
    text = script("jobs of us")
    assert '"jobs of us".' in text
    assert "{schema}" not in text
