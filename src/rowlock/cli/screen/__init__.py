"""What commands show: tables and JSON (output.py), progress bars, and the live board of `rowlock top`.

Nothing here asks the database; commands hand over what was read. Start with output.py.
"""

from __future__ import annotations
