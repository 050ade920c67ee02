"""promtool, with which the alerting rules are tried."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).parents[2]
RULES: Final = ROOT / "docs" / "operate" / "alerts.yml"
PROMTOOL: Final = shutil.which("promtool") or shutil.which("promtool", path=ROOT / ".tools" / "usr" / "bin")


def told(words: Sequence[str], given: str = "", folder: Path | None = None) -> str:
    """What promtool prints; it must be content."""
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *words], input=given, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
