"""How fast pages open in a real Chromium: first paint, usable, long tasks, bytes, and each request of the page."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx
    from playwright.async_api import Browser, Page

_WATCH: Final = """(selector) => {
  window.__seen = {usable: 0, tasks: []};
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.__seen.tasks.push(task.duration);
  }).observe({type: "longtask", buffered: true});
  const look = () => {
    const found = document.querySelector(selector);
    if (found && found.getClientRects().length)
      requestAnimationFrame(() => { window.__seen.usable = performance.now(); });
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
"""Usable: the frame after the one in which what people came for is on the screen."""
_TOLD: Final = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
  usable: window.__seen.usable,
  tasks: window.__seen.tasks,
  requests: performance.getEntriesByType("resource")
    .filter((each) => each.name.includes("/api/v1/") && each.responseEnd > 0)
    .map((each) => [each.name, each.responseEnd - each.requestStart]),
})"""
_PATIENCE: Final = 60.0
_LONG: Final = 50.0
"""Milliseconds after which a task is a long one; what is longer blocks people."""


@dataclass(frozen=True, slots=True)
class OpenedPage:
    """A page to open. usable: the selector of what people came for."""

    name: str
    path: str
    usable: str


PAGES: Final = (
    OpenedPage("Overview", "/", "canvas"),
    OpenedPage("Jobs", "/jobs", "tr[data-key]"),
    OpenedPage("Jobs, failed", "/jobs?q=state%3Afailed", "tr[data-key]"),
    OpenedPage("Jobs of a kind", "/jobs?q=kind%3Ashop.task_07", "tr[data-key]"),
    OpenedPage("Failures", "/failures", "tr[data-key]"),
    OpenedPage("Incident", "/incident", "canvas"),
    OpenedPage("System, database", "/system?tab=database", "td"),
)


@dataclass
class Timings:
    """What several loads of a page gave. Times are medians in milliseconds."""

    page: str
    cold: bool
    paint: float = 0.0
    usable: float = 0.0
    blocked: float = 0.0
    """What long tasks have beyond 50 ms each."""
    longest: float = 0.0
    kilobytes: float = 0.0
    requests: dict[str, float] = field(default_factory=dict)


async def opened(browser: Browser, url: str, token: str, page: OpenedPage, loads: int, *, cold: bool) -> Timings:
    """Open the page several times. cold: with an empty cache each time."""
    told: list[dict[str, Any]] = []
    sizes: list[float] = []
    for load in range(loads + (not cold)):
        if cold or load == 0:
            context = await browser.new_context(viewport={"width": 1280, "height": 800})
            await context.request.get(f"{url}/api/v1/auth/local?token={token}", max_redirects=0)
        tab = await context.new_page()
        session = await context.new_cdp_session(tab)
        await session.send("Network.enable")
        received = [0.0]
        session.on(
            "Network.loadingFinished",
            lambda event, sum_=received: sum_.__setitem__(0, sum_[0] + event["encodedDataLength"]),
        )
        await tab.add_init_script(f"({_WATCH})({page.usable!r})")
        await tab.goto(url + page.path)
        await _until_usable(tab, page)
        await tab.wait_for_timeout(1500)  # requests and tasks after it
        told.append(await tab.evaluate(_TOLD))
        sizes.append(received[0] / 1000)
        await tab.close()
        if cold:
            await context.close()
    if not cold:
        await context.close()
        told, sizes = told[1:], sizes[1:]  # the first filled the cache
    return _summed(page.name, told, sizes, cold=cold)


async def _until_usable(tab: Page, page: OpenedPage) -> None:
    """By asking: the policy of the page refuses functions that are made of text."""
    deadline = time.monotonic() + _PATIENCE
    while not await tab.evaluate("window.__seen?.usable ?? 0"):
        if time.monotonic() > deadline:
            raise SystemExit(f"{page.name} is not usable after {_PATIENCE:.0f} s")
        await asyncio.sleep(0.05)


def _summed(name: str, told: list[dict[str, Any]], sizes: list[float], *, cold: bool) -> Timings:
    requests: dict[str, list[float]] = defaultdict(list)
    for load in told:
        for address, took in load["requests"]:
            parts = urlsplit(address)
            if not parts.path.endswith(("/events", "/stream", "/auth/local")):
                requests[parts.path.removeprefix("/api/v1") + (f"?{parts.query}" if parts.query else "")].append(took)
    blocked = [sum(max(0.0, task - _LONG) for task in load["tasks"]) for load in told]
    return Timings(
        name,
        cold,
        statistics.median(load["paint"] for load in told),
        statistics.median(load["usable"] for load in told),
        statistics.median(blocked),
        max((max(load["tasks"], default=0.0) for load in told), default=0.0),
        statistics.median(sizes),
        {path: statistics.median(took) for path, took in sorted(requests.items())},
    )


async def answered(client: httpx.AsyncClient, paths: list[str], times: int = 15) -> dict[str, tuple[float, float]]:
    """Median and slowest answer of each route in milliseconds, one request at a time after one to warm up."""
    found: dict[str, tuple[float, float]] = {}
    for path in paths:
        taken = []
        for turn in range(times + 1):
            began = time.perf_counter()
            answer = await client.get(path)
            if turn:
                taken.append((time.perf_counter() - began) * 1000)
            answer.raise_for_status()
        found[path] = statistics.median(taken), max(taken)
    return found
