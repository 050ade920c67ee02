"""What commands print: tables, fields, JSON, progress bars and the full screen of `rowlock top`.

output.py has the Screen that every command prints with; records.py says which members --json shows, and they are those
of the REST API. Modules here take values of the model and write text; they know no command. Start with output.py.
Imported by every other part of the command line, and by nothing else.
"""

from __future__ import annotations
