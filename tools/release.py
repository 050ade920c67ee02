"""Checks that a commit can be released: make release-check VERSION=0.2.0.

Prints each step and its result, and stops at the first that fails. Changes nothing but dist/, publishes nothing.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


class NotReady(Exception):
    """The commit cannot be released, and why."""


def clean_tree() -> None:
    """Nothing is changed or untracked."""
    if changed := output("git", "status", "--porcelain"):
        message = f"these files are not committed:\n{changed}"
        raise NotReady(message)


def version_is_written(version: str) -> None:
    """pyproject.toml and the package say the version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    package = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/rowlock/__init__.py").read_text(), re.MULTILINE)
    for place, found in (("pyproject.toml", project), ("rowlock.__version__", package[1] if package else None)):
        if found != version:
            message = f"{place} says {found}, not {version}."
            raise NotReady(message)


def changelog_has(version: str) -> None:
    """The changelog has a section with entries for the version, and nothing is left under Unreleased."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\S+)[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    if "\n- " not in sections.get(version, ""):
        message = f'CHANGELOG.md has no entries under "## {version}". Rename "## Unreleased" and begin a new one.'
        raise NotReady(message)
    if "\n- " in sections.get("Unreleased", ""):
        message = f'CHANGELOG.md still has entries under "## Unreleased". Move them to "## {version}".'
        raise NotReady(message)


def build() -> None:
    """Wheel and source distribution, in an empty dist/, with a dashboard built for them."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    # An old build would be shipped as it is.
    shutil.rmtree(ROOT / "src/rowlock/ui_dist", ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "--directory", str(ROOT / "dist"))
    for archive in sorted((ROOT / "dist").iterdir()):
        if missing := sorted(dashboard_files() - names_in(archive)):
            message = f"{archive.name} lacks files of the dashboard: {', '.join(missing)}."
            raise NotReady(message)


def dashboard_files() -> set[str]:
    """What both archives must have of the dashboard: its page, its scripts and styles, the licences of its packages."""
    folder = ROOT / "src/rowlock/ui_dist"
    found = {str(file.relative_to(ROOT / "src")) for file in folder.rglob("*") if file.is_file()}
    return found | {"rowlock/ui_dist/index.html", "rowlock/ui_dist/THIRD_PARTY_LICENSES.md"}


def names_in(archive: Path) -> set[str]:
    """The files of a wheel or an sdist, by their path below src/."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return set(wheel.namelist())
    with tarfile.open(archive) as source:
        return {name.partition("/src/")[2] for name in source.getnames()}


def bill_of_materials(uv: str) -> None:
    """dist/*.cdx.json (CycloneDX): what an installation of the wheel with every extra brings along."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    extras = ",".join(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("optional-dependencies", {})
    )
    with tempfile.TemporaryDirectory(prefix="rowlock-sbom-") as folder:
        python = f"{folder}/bin/python"
        run(uv, "venv", "--quiet", "--no-project", folder)
        run(
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            "--constraints",
            "requirements.lock",
            f"{wheel}[{extras}]",
        )
        target = str(wheel.with_suffix(".cdx.json"))
        made = ("--pyproject", "pyproject.toml", "--output-reproducible", "--output-file", target)
        run(uv, "tool", "run", "--from", "cyclonedx-bom", "cyclonedx-py", "environment", *made, python)


def vulnerabilities(uv: str) -> None:
    """No locked dependency has a published vulnerability; one that cannot be looked up counts as one."""
    run(uv, "tool", "run", "pip-audit", "--strict", "--disable-pip", "--require-hashes", "-r", "requirements.lock")


def run(*command: str) -> None:
    """A command whose output is shown; NotReady if it fails."""
    code = subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 - from this file
    if code:
        message = f"`{' '.join(command)}` ended with exit code {code}."
        raise NotReady(message)


def make(target: str) -> None:
    """A target of the Makefile, without the options of `make release-check`, which a make inside a make inherits."""
    run("make", target, "ARGS=")


def output(*command: str) -> str:
    """What a command prints."""
    ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603 - as above
    return ended.stdout.strip()


def steps(version: str, uv: str) -> Sequence[tuple[str, str, Callable[[], None]]]:
    """Key, description and action of each step, in order."""
    return (
        ("tree", "the tree is clean", clean_tree),
        ("version", f"pyproject.toml and rowlock.__version__ say {version}", lambda: version_is_written(version)),
        ("changelog", f"CHANGELOG.md has {version}", lambda: changelog_has(version)),
        ("lock", "requirements.lock fits pyproject.toml", lambda: make("verify")),
        ("audit", "no locked dependency has a known vulnerability", lambda: vulnerabilities(uv)),
        ("check", "make check", lambda: make("check")),
        ("test", "make test-all", lambda: make("test-all")),
        ("build", "wheel and source distribution", build),
        ("sbom", "bill of materials of an installed wheel", lambda: bill_of_materials(uv)),
        ("smoke", "the wheel completes a job in fresh environments", lambda: make("wheel-smoke")),
    )


def main() -> int:
    """Run the steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="such as 0.2.0")
    parser.add_argument("--uv", default="uv", help="where uv is")
    names = ",".join(key for key, _, _ in steps("", ""))
    parser.add_argument("--only", help=f"some steps alone, by name: {names}")
    given = parser.parse_args()
    if not VERSION.fullmatch(given.version):
        parser.error(f"a version is 1.2.3, or 1.2.3rc1; got {given.version!r}")
    wanted = set((given.only or "").split(",")) - {""}
    for key, what, act in steps(given.version, given.uv):
        if wanted and key not in wanted:
            continue
        sys.stdout.write(f"{key}: {what}\n")
        sys.stdout.flush()
        try:
            act()
        except NotReady as error:
            sys.stderr.write(f"not ready to release {given.version}: {error}\n")
            return 1
    sys.stdout.write(f"ready: tag v{given.version}, then upload dist/\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
