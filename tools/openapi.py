"""Writes docs/openapi.json and the table of routes in docs/reference/rest.md from the routes.

python tools/openapi.py            write the files
python tools/openapi.py --check    fail when they are not in step with the routes
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowlock import Rowlock
from rowlock.api import RowlockAPI
from rowlock.api.route_permissions import RoutePermissions

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).resolve().parent.parent / "docs"
DOCUMENT, PAGE = DOCS / "openapi.json", DOCS / "reference" / "rest.md"
HEAD = "| route | permission | |\n|---|---|---|\n"


def described() -> dict[str, Any]:
    """The OpenAPI document."""
    return RowlockAPI(Rowlock("postgresql://localhost/rowlock")).openapi()


def page(document: dict[str, Any], text: str) -> str:
    """The reference page with its table of routes as the document has them."""
    before, _, rest = text.partition(HEAD)
    _, blank, after = rest.partition("\n\n")
    return before + HEAD + "\n".join(rows(document)) + blank + after


def rows(document: dict[str, Any]) -> Iterator[str]:
    """One row per route: method and path, permissions, first sentence of its description."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            needs = RoutePermissions.from_data(operation["x-permissions"]).text or "–"  # noqa: RUF001 - a dash
            summary = operation["description"].partition("\n")[0].removesuffix(".")
            yield f"| `{method.upper()} {path.removeprefix('/api/v1')}` | {needs} | {summary} |"


def main() -> int:
    """Write, or compare."""
    document = described()
    fresh = {
        DOCUMENT: json.dumps(document, indent=1, ensure_ascii=False, sort_keys=False) + "\n",
        PAGE: page(document, PAGE.read_text(encoding="utf-8")),
    }
    if "--check" not in sys.argv:
        for target, text in fresh.items():
            target.write_text(text, encoding="utf-8")
        return 0
    stale = [target.name for target, text in fresh.items() if target.read_text(encoding="utf-8") != text]
    for name in stale:
        sys.stderr.write(f"{name} is not in step with the routes: run python tools/openapi.py\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
