"""The tables' own life: migration_files.py reads the numbered SQL files, migrate.py applies, reverts and verifies them.

Imported by the command line, the application and workers at their start. Start with migrate.py.
"""

from __future__ import annotations
