"""Writes a migration of Django for every step of Rowlock's schema; --check says which are missing or out of step.

python tools/django_migrations.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from rowlock.store.schema.migration_files import Migration, migrations

FOLDER = Path(__file__).parents[1] / "src" / "rowlock" / "contrib" / "django" / "migrations"
MODELS = "0000_models"
"""The migration before the first step: the state of the unmanaged models. It is written by hand."""


def file_name(step: Migration) -> str:
    """The name of a step's migration, without .py."""
    return f"{step.version:04}_{step.name}"


def wanted() -> dict[str, str]:
    """The text of every file."""
    texts, before = {}, MODELS
    for step in migrations():
        name = file_name(step)
        texts[f"{name}.py"] = (
            f'"""Step {step.version} of Rowlock\'s schema. Written by tools/django_migrations.py."""\n\n'
            "from __future__ import annotations\n\n"
            "from rowlock.contrib.django.schema_step import step_migration\n\n"
            f'Migration = step_migration({step.version}, after="{before}")\n'
        )
        before = name
    return texts


def main() -> int:
    """Write the files, or compare them."""
    texts = wanted()
    present = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.glob("[0-9]*.py")}
    present.pop(f"{MODELS}.py", None)
    if "--check" not in sys.argv[1:]:
        for name in present.keys() - texts.keys():
            (FOLDER / name).unlink()
        for name, text in texts.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
        return 0
    wrong = sorted(name for name in present.keys() | texts.keys() if present.get(name) != texts.get(name))
    if wrong:
        sys.stderr.write(f"{', '.join(wrong)} in {FOLDER.name}/ of contrib/django: run python {Path(__file__).name}\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
