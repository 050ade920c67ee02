"""Server-sent events: their format and lifetime, how many may be open, and how they end with the server.

routes/streams.py and routes/embed.py open streams with these; what they send comes from `desk/follow`.
"""

from __future__ import annotations
