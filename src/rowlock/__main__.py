"""python -m rowlock."""

from rowlock.cli import main

main()
