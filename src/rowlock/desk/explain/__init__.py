"""Why a job does not run: one module per kind of reason, put in order by explain.py.

facts.py reads what the reasons need in one snapshot; phrases are shared with the rest of the desk. Only the desk's
jobs.py imports explain.py. Start there.
"""

from __future__ import annotations
