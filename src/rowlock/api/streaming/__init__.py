"""Server-sent events: their format and lifetime, how many may be open, and how they end with the server.

Start with sse.py; stream_limits.py counts open streams, stop_signals.py ends them. The routes of streams and of
embedded elements import this package; what they send comes from `desk/follow`.
"""

from __future__ import annotations
