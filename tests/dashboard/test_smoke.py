"""The dashboard opens and shows a job; skipped where it is not built or there is no browser."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.browser.conftest import NAMES
from tests.dashboard.conftest import built

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        not built() or not (os.environ.get("ROWLOCK_TEST_CHROMIUM") or any(map(shutil.which, NAMES))),
        reason="the dashboard is not built, or there is no Chromium: make test-ui does both",
    ),
]


async def test_the_dashboard_opens_and_shows_a_job(visit: Callable[..., Any]) -> None:
    window = await visit()
    job = await window.rest.submit(run_in="1h")
    await window.open("/jobs", "Jobs")
    await window.page.get_by_role("link", name=job["id"]).click()
    await window.sees(window.page.get_by_role("heading", level=1, name="greet"))
    await window.sees(window.text("Why is it not running?"))
    assert window.faults == []
