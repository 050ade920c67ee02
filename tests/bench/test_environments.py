from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from bench.environments import CannotInstall
from bench.roster import Subject

from bench import environments, roster, run

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_ours_needs_no_environment_of_its_own() -> None:
    found = environments.prepare(roster.ROWLOCK, {})
    assert found.python == sys.executable
    assert found.version_of(roster.ROWLOCK).startswith("rowlock ")


def test_a_python_that_does_not_start_is_said_to_be_missing(tmp_path: Path) -> None:
    broken = tmp_path / "python3.12"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    peer = Subject("late", "late", "PostgreSQL", ("late",), python="3.12")
    with pytest.raises(CannotInstall, match=r"needs Python 3\.12.*--python3\.12"):
        environments.prepare(peer, {"3.12": str(broken)})


def test_a_peer_that_cannot_be_installed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    impossible = Subject("nobody", "nobody", "PostgreSQL", (f"{tmp_path}/no-such-package",))
    found, results = run.prepared([impossible], {})
    assert found == {}
    assert "cannot be installed" in results.subjects["nobody"]["problem"]


def test_without_redis_its_subjects_are_reported() -> None:
    _, results = run.prepared([roster.ROWLOCK], {})
    results.subjects["arq"] = {"store": "Redis", "settings": "", "lacks": ""}
    run.without_redis(results)
    assert results.subjects["arq"]["problem"] == "redis-server is not installed"
    assert "problem" not in results.subjects["rowlock"]
