"""Debian's Chromium, driven by Playwright: what pages can do, as far as a real browser decides it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest
from playwright.async_api import async_playwright
from tests.cli.conftest import cli, forks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Browser

__all__ = ["cli", "forks"]  # fixtures of the command line's tests

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
MISSING: Final = (
    "These tests need Chromium, which is not installed. `make test-browser` installs it with apt when it runs as root; "
    "otherwise: sudo apt-get install chromium, or set ROWLOCK_TEST_CHROMIUM to the path of a Chromium or Chrome."
)
OPTIONS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Newer Chromiums keep such pages from this machine by themselves; the server must not need them for it.
    "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets",
    # Names that an attacker would own, rebound to this machine.
    "--host-resolver-rules=MAP *.example 127.0.0.1",
)


def chromium() -> str:
    """The path of the browser; fails where there is none, because a skipped proof is no proof."""
    found = os.environ.get("ROWLOCK_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail(MISSING, pytrace=False)
    return found


@pytest.fixture
async def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Browser]:
    """A browser without a past; Playwright gives it a fresh profile folder."""
    path = chromium()
    monkeypatch.setenv("HOME", str(tmp_path))
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=path, args=list(OPTIONS), timeout=120_000)
        yield launched
        await launched.close()
