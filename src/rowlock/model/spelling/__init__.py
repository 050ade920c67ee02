"""Names that a caller may get wrong: suggestions for unknown ones, old names of settings, and keyword options.

May import errors and nothing else. Imported by every room. Start with similar_names.py.
"""

from __future__ import annotations
