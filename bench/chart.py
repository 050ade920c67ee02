"""A bar chart as SVG, written by hand: no plotting library, readable on light and dark pages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.results import Results, Spread

_WIDTH, _LEFT, _RIGHT = 860, 130, 110
_LINE, _BAR, _HEAD = 24, 14, 46
_OWN: Final = "#0a7d5a"
_LOOP: Final = "#9aa4ad"
_PEER: Final = "#4f6d8f"
_TEXT: Final = "#7a828a"
"""Grey enough for both backgrounds."""
_LOOPS: Final = ("minimal", "limit")


def drawn(results: Results) -> str:
    """Drain, enqueue and bulk rates, each on a scale of its own."""
    panels = [
        ("No-op drain, one worker, jobs/s", "drain"),
        ("Enqueue one by one, jobs/s", "enqueue"),
        ("Bulk enqueue, jobs/s", "bulk"),
    ]
    parts, top = [], 0
    for title, scene in panels:
        bars = [(name, spread) for name in results.subjects if (spread := results.spread(scene, name, "rate"))]
        if bars:
            bars.sort(key=lambda bar: -bar[1].median)
            parts.append(_panel(title, bars, top))
            top += _HEAD + _LINE * len(bars) + 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top + 22}" font-family="sans-serif">'
    foot = f'<text x="0" y="{top + 14}" font-size="11" fill="{_TEXT}">{escape(_legend(results))}</text>'
    return "\n".join([head, *parts, foot, "</svg>"]) + "\n"


def _legend(results: Results) -> str:
    where = f"{results.machine.get('processor', '')}, {results.machine.get('cores', '?')} cores"
    return f"Median, whiskers lowest to highest. Grey: hand-written loops, not products. {where}."


def _panel(title: str, bars: Sequence[tuple[str, Spread]], top: int) -> str:
    most = max(spread.high for _, spread in bars)

    def at(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / most

    lines = [f'<text x="0" y="{top + 18}" font-size="14" font-weight="bold" fill="{_TEXT}">{escape(title)}</text>']
    step = _step(most)
    lines += [_tick(at(n * step), n * step, top, len(bars)) for n in range(int(most / step) + 1)]
    for n, (name, spread) in enumerate(bars):
        lines += _bar(name, spread, top + _HEAD + n * _LINE, at(spread.median), (at(spread.low), at(spread.high)))
    return "\n".join(lines)


def _step(most: float) -> float:
    """A round number that divides the axis into two to five parts."""
    size: float = 10 ** math.floor(math.log10(most))
    return next(size / part for part in (0.5, 1, 2, 5) if most / size * part >= 2)  # noqa: PLR2004 - two parts


def _tick(x: float, value: float, top: int, bars: int) -> str:
    bottom = top + _HEAD + bars * _LINE - 6
    return (
        f'<line x1="{x:.1f}" y1="{top + 40}" x2="{x:.1f}" y2="{bottom}" stroke="{_TEXT}" stroke-opacity="0.25"/>'
        f'<text x="{x:.1f}" y="{top + 35}" font-size="10" text-anchor="middle" fill="{_TEXT}">{value:,.0f}</text>'
    )


def _bar(name: str, spread: Spread, y: int, end: float, whisker: tuple[float, float]) -> list[str]:
    colour = _OWN if name == "rowlock" else _LOOP if name in _LOOPS else _PEER
    weight = ' font-weight="bold"' if name == "rowlock" else ""
    middle = y + _BAR / 2
    style = f'font-size="12" fill="{_TEXT}"{weight}'
    line = f'y1="{middle}" y2="{middle}" stroke="{_TEXT}" stroke-width="2"'
    return [
        f'<text x="{_LEFT - 8}" y="{y + 11}" text-anchor="end" {style}>{escape(name)}</text>',
        f'<rect x="{_LEFT}" y="{y}" width="{max(end - _LEFT, 1):.1f}" height="{_BAR}" fill="{colour}" rx="2"/>',
        f'<line x1="{whisker[0]:.1f}" x2="{whisker[1]:.1f}" {line}/>',
        f'<text x="{max(end, whisker[1]) + 6:.1f}" y="{y + 11}" {style}>{spread.median:,.0f}</text>',
    ]
