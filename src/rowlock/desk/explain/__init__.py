"""Why a job is not running: every reason that holds, the most decisive first.

facts reads everything around one job in a single snapshot. The functions in reasons and its neighbours judge these
facts without reading more, one reason each, and explain puts the reasons in order. Start with explain.
"""

from __future__ import annotations
