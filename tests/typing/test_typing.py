from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
EXPECTED = re.compile(r"# type: ignore\[([\w,-]+)\]")


def mypy(file: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(180)
def test_right_calls_pass_and_every_wrong_one_is_an_error() -> None:
    assert mypy(HERE / "tasks.py") == (0, "")


@pytest.mark.timeout(180)
def test_the_errors_are_on_the_lines_that_expect_them(tmp_path: Path) -> None:
    text = (HERE / "tasks.py").read_text()
    bare = tmp_path / "bare.py"
    bare.write_text(EXPECTED.sub("", text))
    _, output = mypy(bare)
    found = {int(line) for line in re.findall(r"^\S+?:(\d+): error", output, re.MULTILINE)}
    expected = {number for number, line in enumerate(text.splitlines(), 1) if EXPECTED.search(line)}
    assert len(expected) > 15
    assert found == expected
