"""The checkers read tests/typing/cases: each error where an `E:` comment announces it, and no other.

``# E: arg-type | reportArgumentType``: mypy's code, then pyright's; several are separated by commas, - is none.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

CASES = Path(__file__).parent / "cases"
FILES = sorted(map(str, CASES.glob("*.py")))
ROOT = CASES.parents[2]
EXPECTED = re.compile(r"# E: (.*) \| (.*)$")
FOUND = re.compile(r"^(.+?):(\d+): error: .*\[([\w-]+)\]$", re.MULTILINE)

Errors: TypeAlias = "dict[str, list[str]]"
"""Place (file and line) to the codes of its errors, sorted."""


def expected(checker: int) -> Errors:
    return {
        f"{file.name}:{number}": sorted(codes[checker].split(", "))
        for file in map(Path, FILES)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (found := EXPECTED.search(line)) and (codes := found.groups())[checker] != "-"
    }


def collected(errors: Iterable[tuple[str, int, str]]) -> Errors:
    places: dict[str, set[str]] = defaultdict(set)
    for path, line, code in errors:
        places[f"{Path(path).name}:{line}"].add(code)
    return {place: sorted(_causes(codes)) for place, codes in places.items()}


def _causes(codes: set[str]) -> set[str]:
    """What is unknown because of another error is no error of its own."""
    return {code for code in codes if not code.startswith("reportUnknown")} or codes


def run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def test_the_cases_expect_something() -> None:
    assert len(expected(0)) > 50


@pytest.mark.timeout(180)
def test_mypy_finds_each_error_on_its_line_and_no_other() -> None:
    output = run(sys.executable, "-m", "mypy", "--strict", "--hide-error-context", "--no-error-summary", *FILES)
    assert collected((path, int(line), code) for path, line, code in FOUND.findall(output)) == expected(0)


@pytest.mark.timeout(180)
def test_pyright_finds_each_error_on_its_line_and_no_other(tmp_path: Path) -> None:
    settings = {"include": FILES, "typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    output = run(
        sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "-p", str(tmp_path), "--outputjson"
    )
    answer = json.loads(output)
    assert answer["summary"]["filesAnalyzed"] == len(FILES)
    found = (
        (item["file"], item["range"]["start"]["line"] + 1, item["rule"])
        for item in answer["generalDiagnostics"]
        if item["severity"] == "error"
    )
    assert collected(found) == expected(1)
