"""The pytest plugin of rowlock.testing.

A module beside the package, because pytest loads it in every run: importing anything of rowlock would import all of it.
Nothing is imported, started or connected before a test asks for a fixture.
"""

from __future__ import annotations

import os
import pkgutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rowlock import Rowlock
    from rowlock.testing import Databases, Kit


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the one setting."""
    parser.addini("rowlock_app", "The application under test, as module:attribute (default: ROWLOCK_APP).", default="")


@pytest.fixture(scope="session")
def rowlock_app(pytestconfig: pytest.Config) -> Rowlock:
    """The application under test; override it, or set rowlock_app = "myapp.tasks:app" in pytest's configuration."""
    from rowlock import Rowlock  # noqa: PLC0415 - see above

    path = str(pytestconfig.getini("rowlock_app") or os.environ.get("ROWLOCK_APP", ""))
    if not path:
        pytest.fail(
            'The rowlock fixture does not know the application to test. Set rowlock_app = "myapp.tasks:app" in the '
            "configuration of pytest (or ROWLOCK_APP), or write a fixture rowlock_app that returns it.",
            pytrace=False,
        )
    try:
        found = pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        pytest.fail(
            f"rowlock_app = {path!r} leads nowhere: {error}. It is module:attribute, and the module must be "
            "importable; the setting pythonpath of pytest adds folders.",
            pytrace=False,
        )
    if not isinstance(found, Rowlock):
        pytest.fail(f"rowlock_app = {path!r} is a {type(found).__name__}, not a Rowlock application.", pytrace=False)
    return found


@pytest.fixture(scope="session")
def rowlock_prepare() -> Callable[[str], object] | None:
    """Override it to return a function that adds your own tables: called once per run with the template's URL."""
    return None


@pytest.fixture(scope="session")
def rowlock_databases(rowlock_prepare: Callable[[str], object] | None) -> Iterator[Databases]:
    """The databases of this run: embedded, or on the server of ROWLOCK_TEST_DATABASE_URL."""
    from rowlock.errors import RowlockError  # noqa: PLC0415 - see above
    from rowlock.testing import Databases  # noqa: PLC0415

    databases = Databases(run=os.environ.get("PYTEST_XDIST_TESTRUNUID"), prepare=rowlock_prepare)
    try:
        databases.open()
    except RowlockError as error:
        pytest.fail(str(error), pytrace=False)
    yield databases
    databases.close()


@pytest.fixture
def rowlock(rowlock_app: Rowlock, rowlock_databases: Databases) -> Iterator[Kit]:
    """The application on a fresh database of this test's own, and what to do with it."""
    from rowlock.errors import RowlockError  # noqa: PLC0415 - see above
    from rowlock.testing import Kit  # noqa: PLC0415

    try:
        kit = Kit(rowlock_app, rowlock_databases)
    except RowlockError as error:
        pytest.fail(str(error), pytrace=False)
    yield kit
    kit.close()
