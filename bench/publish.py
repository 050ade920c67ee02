"""Writes the figures of a run into docs/operate/performance.md, so that none is typed by hand.

    python -m bench.publish bench/results/latest.json

The page marks each place with <!-- bench:NAME --> and <!-- /bench:NAME -->; NAME is a part of the report, or `chart`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import chart, report
from bench.results import Results

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE: Final = Path(__file__).parents[1] / "docs" / "operate" / "performance.md"
PICTURE: Final = PAGE.with_suffix(".svg")
_PLACE: Final = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench:\2 -->)", re.DOTALL)


def filled(page: str, parts: Mapping[str, str]) -> str:
    """The page with each marked place filled; a name that is no part is a mistake in the page."""
    unknown = {name for _, name, _ in _PLACE.findall(page)} - parts.keys()
    if unknown:
        raise SystemExit(f"The page marks places for {', '.join(sorted(unknown))}; parts are {', '.join(parts)}.")
    return _PLACE.sub(lambda place: f"{place[1]}\n{parts[place[2]]}\n\n{place[3]}", page)


def publish(results: Results) -> None:
    """Rewrite the page and its picture."""
    parts = {name: part(results) for name, part in report.PARTS.items()}
    parts["chart"] = f"![Rates of Rowlock, its peers and hand-written loops]({PICTURE.name})"
    PAGE.write_text(filled(PAGE.read_text(), parts))
    PICTURE.write_text(chart.drawn(results))


if __name__ == "__main__":
    publish(Results.load(Path(sys.argv[1])))
