"""Routes of the REST API, one module per subject. Each declares a `Routes` that door.py adds to its router.

A route reads the request, calls the desk and builds the answer; the desk checks permissions. Start with jobs.py.
Routes import schemas, dependencies and the desk; only door.py imports them.
"""

from __future__ import annotations
