"""`python -m examples.knowledge_graph.migrate`: bring the database to the newest revision, or down to `base`."""

from __future__ import annotations

import argparse
from pathlib import Path

from alembic import command
from alembic.config import Config

from rowlock import Rowlock


def main() -> None:
    """Upgrade the database that ROWLOCK_DATABASE_URL names, or the embedded one."""
    parser = argparse.ArgumentParser(prog="python -m examples.knowledge_graph.migrate", description=__doc__)
    parser.add_argument("revision", nargs="?", default="head", help="head, or base to remove everything")
    revision = parser.parse_args().revision
    migrate(Rowlock().database_url, revision)


def migrate(url: str, revision: str = "head") -> None:
    """Bring this database to the revision."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("url", url.replace("%", "%%"))
    (command.downgrade if revision == "base" else command.upgrade)(config, revision)


if __name__ == "__main__":
    main()
