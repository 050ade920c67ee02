"""The applications of a folder are found in the text of its modules; none is imported for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock.cli.find_app import apps_in

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("tasks.py", "from rowlock import Rowlock\napp = Rowlock()\n", ["tasks:app"]),
        ("tasks.py", "import rowlock\nqueue: rowlock.Rowlock = rowlock.Rowlock('postgresql:///x')\n", ["tasks:queue"]),
        ("shop/jobs.py", "from rowlock import Rowlock\napp = Rowlock()\n", ["shop.jobs:app"]),
        ("shop/__init__.py", "from rowlock import Rowlock\napp = Rowlock()\n", ["shop:app"]),
        ("tasks.py", "from rowlock import Rowlock\ndef make():\n    app = Rowlock()\n", []),
        ("tasks.py", "app = Rowlock(  # never closed\n", []),
        ("tasks.py", "app = NotRowlock()\n", []),
        ("test_tasks.py", "from rowlock import Rowlock\napp = Rowlock()\n", []),
        ("tests/tasks.py", "from rowlock import Rowlock\napp = Rowlock()\n", []),
        ("loose/tasks.py", "from rowlock import Rowlock\napp = Rowlock()\n", []),
    ],
)
def test_what_counts_as_an_application(tmp_path: Path, file: str, text: str, found: list[str]) -> None:
    for package in ("shop", "tests"):
        tmp_path.joinpath(package).mkdir()
        tmp_path.joinpath(package, "__init__.py").touch()
    tmp_path.joinpath("loose").mkdir()
    tmp_path.joinpath(file).write_text(text)
    assert apps_in(tmp_path) == found


def test_a_module_that_is_no_text_is_passed_over(tmp_path: Path) -> None:
    tmp_path.joinpath("binary.py").write_bytes(b"\xff\xfe Rowlock(")
    tmp_path.joinpath("tasks.py").write_text("from rowlock import Rowlock\napp = Rowlock()\n")
    assert apps_in(tmp_path) == ["tasks:app"]
