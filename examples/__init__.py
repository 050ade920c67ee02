"""Whole applications on Rowlock's public interface; each folder is one, and runs with `python -m examples.NAME`."""

from __future__ import annotations
