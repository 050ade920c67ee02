"""Deploys: old and new code on one database. Nothing here may be imported that the code of an earlier release lacks."""

from __future__ import annotations

from typing import Final

AMOUNT: Final = 10
BURST: Final = 2
"""`rated` jobs start at most AMOUNT times a second, after BURST of them."""
