"""What commands print: tables, fields, JSON, progress bars and the full screen of `rowlock top`.

output has the Screen that every command prints with; records says which members --json shows, and they are those of the
REST API. Modules here take values of the model and write text; they know no command. Start with output.
"""

from __future__ import annotations
