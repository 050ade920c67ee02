"""Why a job is not running: every reason that holds, the most decisive first.

facts.py reads everything around one job in a single snapshot. The functions in reasons.py and its neighbours judge
these facts without reading more, one reason each, and explain.py puts the reasons in order. Start with explain.py.
Imported by desk/jobs.py alone; imports other subjects of the desk, store and model.
"""

from __future__ import annotations
