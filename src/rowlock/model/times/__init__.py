"""Times as people write and mean them: cron lines, durations, dates, and windows of the week.

May import errors, model.keys and model.spelling. Imported by every room. Start with duration.py.
"""

from __future__ import annotations
