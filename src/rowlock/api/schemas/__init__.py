"""Bodies of requests and answers, one module per subject; the OpenAPI document is generated from them.

Start with base.py (what all of them share) and fields.py (fields that recur, described once). Routes import this
package; it imports values of `rowlock.model` and nothing of the routes. Names and units follow one rule: durations are
seconds in answers and seconds or a text such as "1h30m" in requests, instants are RFC 3339 in UTC, job ids are public
ids, counts are `{value, exact}`.
"""

from __future__ import annotations
