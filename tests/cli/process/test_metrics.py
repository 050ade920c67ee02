"""The metrics of a server, where their package is installed."""

from __future__ import annotations

import sys

import pytest

from rowlock import Rowlock
from rowlock.cli.process.metrics import metrics_of


def test_metrics_need_the_prometheus_package(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Rowlock("postgresql://nowhere/x")
    monkeypatch.setitem(sys.modules, "rowlock.contrib.prometheus", None)
    assert metrics_of(app) is None


async def test_metrics_are_a_collector_of_the_application() -> None:
    pytest.importorskip("prometheus_client")
    assert metrics_of(Rowlock("postgresql://nowhere/x")) is not None
