"""The built dashboard in a real Chromium, on a real server, database and worker."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pytest
from tests.api.conftest import declare, make_rest, rest, running
from tests.browser.conftest import browser
from tests.waiting import PATIENCE

from rowlock import Rowlock
from rowlock.api.dashboard import FOLDER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from playwright.async_api import Browser, ConsoleMessage, Locator, Page
    from tests.api.conftest import Rest

__all__ = ["browser", "make_rest", "rest"]  # fixtures of the API's and the browser's tests

AXE: Final = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
Theme: TypeAlias = Literal["light", "dark"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")
IN_TIME: Final = PATIENCE * 1000
"""Milliseconds that a page may take on a busy machine."""
CUT_HEADINGS: Final = """[...document.querySelectorAll("th")]
  .filter((each) => each.getClientRects().length && each.scrollWidth > each.clientWidth + 1)
  .map((each) => each.textContent)"""
PHONE: Final = {"width": 320, "height": 720}


def built() -> bool:
    """Whether there is a dashboard to try, and the package that judges it."""
    return (FOLDER / "index.html").is_file() and AXE.is_file()


@dataclass
class Visit:
    """One browser window of one person."""

    rest: Rest
    page: Page
    url: str
    faults: list[str] = field(default_factory=list)
    """Exceptions in the page, and what its content security policy refused."""

    async def open(self, path: str, heading: str | None = None) -> None:
        """Go to a page of the dashboard and wait for its heading."""
        await self.page.goto(self.url + path)
        await self.sees(self.page.get_by_role("heading", level=1).filter(has_text=heading or ""))

    async def sees(self, what: Locator) -> None:
        """Wait until it is visible."""
        await what.first.wait_for(timeout=IN_TIME)

    async def misses(self, what: Locator) -> None:
        """Wait until it is gone."""
        await what.first.wait_for(state="hidden", timeout=IN_TIME)

    def button(self, name: str) -> Locator:
        """The button of this very name, in the open dialog if there is one."""
        return self.page.locator("dialog[open], body:not(:has(dialog[open]))").get_by_role(
            "button", name=name, exact=True
        )

    def text(self, text: str) -> Locator:
        return self.page.get_by_text(text)

    async def wears(self, theme: Theme) -> None:
        """Show the pages in this theme, without motion."""
        await self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")

    async def is_accessible(self, themes: Sequence[Theme] = THEMES) -> None:
        """No violation in these themes, and no fault so far."""
        await self.page.evaluate(AXE.read_text(encoding="utf-8"))
        for theme in themes:
            await self.wears(theme)
            # Colours change within a moment, and half-way they contrast with nothing.
            await self.page.evaluate("Promise.allSettled(document.getAnimations().map((each) => each.finished))")
            found: dict[str, Any] = await self.page.evaluate(
                "axe.run(document, {rules: {'target-size': {enabled: true}}, resultTypes: ['violations']})"
            )
            told = [
                (each["id"], node["html"][:200], node["failureSummary"])
                for each in found["violations"]
                for node in each["nodes"]
            ]
            assert told == [], theme
        assert self.faults == []

    async def fits(self) -> None:
        """The page is not wider than the window, and no table squeezes a column until its heading is cut."""
        assert await self.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert await self.page.evaluate(CUT_HEADINGS) == []

    def note(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text or "React" in message.text:
            self.faults.append(message.text)


@pytest.fixture
async def visit(browser: Browser, make_rest: Callable[..., Rest]) -> AsyncIterator[Callable[..., Any]]:
    """Opens windows: `visit(who)` on a server with everything declared; more: options of the API."""
    if not built():
        pytest.fail(
            "These tests need the built dashboard: run `make ui`, or all of them with `make test-ui`.", pytrace=False
        )
    async with contextlib.AsyncExitStack() as stack:
        servers: dict[str, tuple[Rest, str]] = {}

        async def opened(who: str = "root", *, phone: bool = False, **more: Any) -> Visit:  # noqa: ANN401 - RowlockAPI's
            key = repr(more)
            if key not in servers:
                made = make_rest(**more)
                servers[key] = made, stack.enter_context(running(made.api))
            made, url = servers[key]
            context = await browser.new_context(
                extra_http_headers={"X-Who": who},
                **({"viewport": PHONE} if phone else {}),  # type: ignore[arg-type]
            )
            page = await context.new_page()
            page.set_default_timeout(IN_TIME)
            window = Visit(made, page, url)
            page.on("console", window.note)
            page.on("pageerror", lambda error: window.faults.append(str(error)))
            stack.push_async_callback(context.close)
            return window

        yield opened


@pytest.fixture
async def worker(database_url: str) -> AsyncIterator[Callable[[], Any]]:
    """Starts a worker that runs what the pages enqueue."""
    async with contextlib.AsyncExitStack() as stack:

        async def start() -> Rowlock:
            app = declare(Rowlock(database_url))
            await stack.enter_async_context(app)
            await stack.enter_async_context(app.worker(name="here"))
            return app

        yield start
