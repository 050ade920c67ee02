"""python -m rowlock."""

from __future__ import annotations

from rowlock.cli import main

main()
