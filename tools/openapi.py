"""Writes docs/openapi.json, the description of the REST door, from its routes.

python tools/openapi.py            write the file
python tools/openapi.py --check    fail when it is not in step with the routes
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rowlock import Rowlock
from rowlock.api import RowlockAPI

TARGET = Path(__file__).resolve().parent.parent / "docs" / "openapi.json"


def rendered() -> str:
    """The document as the file has it."""
    document = RowlockAPI(Rowlock("postgresql://localhost/rowlock")).openapi()
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=False) + "\n"


def main() -> int:
    """Write, or compare."""
    fresh = rendered()
    if "--check" not in sys.argv:
        TARGET.write_text(fresh, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == fresh:
        return 0
    sys.stderr.write(f"{TARGET.name} is not in step with the routes: run python tools/openapi.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
