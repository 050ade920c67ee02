"""The commands of `rowlock`, one module per subject.

A command reads its options, calls the desk and prints through cli/screen; it imports what it needs when it runs, so
that --help is instant. Only cli/root.py imports these modules. Start with jobs.py.
"""

from __future__ import annotations
