"""tools/build_ui.py: when the dashboard is built, with which Node, and what is said when that fails."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

TOOL = Path(__file__).parents[1] / "tools" / "build_ui.py"
LOCK = {"name": "page", "lockfileVersion": 3, "requires": True, "packages": {"": {"name": "page"}}}
WRITES = (
    "const fs = require('fs'); const out = '../src/rowlock/ui_dist/'; fs.mkdirSync(out, {recursive: true}); "
    "fs.writeFileSync(out + 'index.html', process.version); fs.writeFileSync(out + 'app.js', 'x'.repeat(5000))"
)


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_ui", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout whose dashboard is one script."""
    (tmp_path / "ui").mkdir()
    (tmp_path / "src" / "rowlock").mkdir(parents=True)
    (tmp_path / "ui" / "package-lock.json").write_text(json.dumps(LOCK))
    write_build(tmp_path, "node build.cjs")
    (tmp_path / "ui" / "build.cjs").write_text(WRITES)
    return tmp_path


def write_build(root: Path, command: str) -> None:
    (root / "ui" / "package.json").write_text(json.dumps({"name": "page", "scripts": {"build": command}}))


def hook(tool: ModuleType, root: Path) -> Any:  # noqa: ANN401 - of a module that is loaded here
    made = tool.UiBuildHook.__new__(tool.UiBuildHook)
    made._BuildHookInterface__root = str(root)
    return made


def test_a_wheel_is_built_with_the_node_of_the_environment_and_only_once(tool: ModuleType, root: Path) -> None:
    page = root / "src" / "rowlock" / "ui_dist" / "index.html"
    assert hook(tool, root).dependencies() == [tool.NODE]
    hook(tool, root).initialize("standard", {})
    assert page.read_text().startswith("v24.")
    assert gzip.decompress(page.with_name("app.js.gz").read_bytes()) == b"x" * 5000
    page.write_text("as it was")
    assert hook(tool, root).dependencies() == []
    hook(tool, root).initialize("standard", {})
    assert page.read_text() == "as it was"


def test_an_editable_install_is_built_on_demand_only(
    tool: ModuleType, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root / "src" / "rowlock" / "ui_dist"
    hook(tool, root).initialize("editable", {})
    assert not folder.exists()
    monkeypatch.setenv(tool.FORCED, "1")
    hook(tool, root).initialize("editable", {})
    assert (folder / "index.html").exists()


def test_a_build_that_fails_says_which_command_and_what_works_without(tool: ModuleType, root: Path) -> None:
    write_build(root, "node -e 'process.exit(3)'")
    with pytest.raises(tool.UiNotBuilt, match=r"`npm run build` in ui/ ended with exit code 3.*editable install"):
        hook(tool, root).initialize("standard", {})


def test_a_checkout_without_the_source_says_so(tool: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(tool.UiNotBuilt, match="build from a whole checkout"):
        hook(tool, tmp_path).initialize("standard", {})
