"""The dashboard's pages and their tabs, read from its source, so that a test of every page forgets none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parents[2] / "ui" / "src"
_ROUTE: Final = re.compile(r'\{ path: "([^"]+)", page: lazy\(\(\) => import\("\./pages/([^"]+)"\)\)')
_TABS: Final = re.compile(r"const TABS = \[([^\]]+)\] as const")
_PARAMETER: Final = re.compile(r'useUrlChoice\("(\w+)", TABS\)')


def routes() -> dict[str, str]:
    """{path of the router: folder of its page}."""
    found = _ROUTE.findall((SOURCE / "routes.ts").read_text(encoding="utf-8"))
    assert found, "routes.ts names its pages in another way"
    return dict(found)


def tabs(folder: str) -> list[str]:
    """What the address of each tab of a page ends with: "?tab=rates"; a page without tabs has one: ""."""
    text = (SOURCE / "pages" / folder / "index.tsx").read_text(encoding="utf-8")
    written = _TABS.search(text)
    if written is None:
        assert "<Tabs" not in text, f"pages/{folder} names its tabs in another way than TABS"
        return [""]
    parameter = _PARAMETER.search(text)
    assert parameter is not None, f"pages/{folder} keeps its tab elsewhere than in the address"
    return [f"?{parameter[1]}={name}" for name in re.findall(r'"([^"]+)"', written[1])]


def addresses() -> set[str]:
    """Every page and tab, as the router writes it: "/jobs/:id?section=log"."""
    return {path + tab for path, folder in routes().items() for tab in tabs(folder)}
