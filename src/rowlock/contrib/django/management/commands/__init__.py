"""One module per command of manage.py; `rowlock` is the only one."""

from __future__ import annotations
