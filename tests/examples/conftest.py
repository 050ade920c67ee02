"""End-to-end tests of the example applications, and what each of them proved, printed in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.browser.conftest import browser

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["browser"]  # a fixture of the browser's tests

PROVED = "proved"


@pytest.fixture
def proved(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Call it with a sentence that the test has shown to be true; `make examples` prints it."""
    return lambda sentence: record_property(PROVED, sentence)


def pytest_terminal_summary(terminalreporter: Any) -> None:  # noqa: ANN401 - pytest has no name for its type
    """Print what was proved, by application, with the seconds of each test."""
    shown: dict[str, list[str]] = {}
    for report in terminalreporter.getreports("passed"):
        for name, sentence in report.user_properties:
            if name == PROVED:
                application = report.nodeid.partition("/test_")[2].partition(".py")[0]
                shown.setdefault(application, []).append(f"  {sentence} ({report.duration:.0f} s)")
    for application, lines in sorted(shown.items()):
        terminalreporter.write_sep("-", f"examples/{application} proved")
        for line in lines:
            terminalreporter.write_line(line)
