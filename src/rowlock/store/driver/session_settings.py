"""The settings of Rowlock's own sessions: what a database or role sets for all its sessions is not left to chance.

Through a pooler that lends another server for every transaction a session cannot set anything: there each transaction
begins with its isolation, the limits of waits, and MEANINGS (see pinned_connection.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.store.driver import tcp_timeouts

if TYPE_CHECKING:
    import asyncpg

PINNED: Final = {
    # Every statement is written for it: it waits for a row and then sees that row as it is.
    "default_transaction_isolation": "read committed",
    # These change what a text, a number or a literal means.
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "quote_all_identifiers": "off",
    # It would leave out rows that a search by arguments must find.
    "gin_fuzzy_search_limit": "0",
}
"""Settings that change what a statement means. default_transaction_read_only is not among them: operators use it to
stop all writing, and Rowlock then waits as it does in an outage. search_path is not either: statements name the schema,
and triggers that users put on the tables rely on theirs."""
MEANINGS: Final = (
    "standard_conforming_strings",
    "transform_null_equals",
    "array_nulls",
    "gin_fuzzy_search_limit",
)
"""Those of PINNED that matter in a single transaction; values travel in PostgreSQL's binary formats."""
LIMITS: Final = {
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "30s",
    "idle_session_timeout": "0",
    # A client whose machine or network is gone keeps its locks until the server knows; unset that takes two hours.
    **tcp_timeouts.SERVER,
}
# With these a worker's statements keep one generic plan: nested loops over jobs_claim and the primary key, 0.5 ms less
# planning per claim. A generic plan WITHOUT the guards may hash-join the whole table, so the two go together.
GUARDS: Final = {
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_material": "off",
    "plan_cache_mode": "force_generic_plan",
    # The other plans that a claim needs, should the role have switched them off.
    "enable_indexscan": "on",
    "enable_indexonlyscan": "on",
    "enable_nestloop": "on",
    "enable_sort": "on",
}
_TRANSACTION_TIMEOUT_SINCE: Final = 17
"""The version of PostgreSQL that has transaction_timeout; an older one refuses a connection that names it."""


def at_start(role: str, *, guarded: bool) -> dict[str, str]:
    """Settings for the start of a connection. role: shown in application_name; guarded: with GUARDS."""
    # Functions of the schema warn of rows that they pass over: see server_warnings.py.
    heard = {"client_min_messages": "warning"}
    return {"application_name": f"rowlock:{role}", **heard, **PINNED, **LIMITS, **(GUARDS if guarded else {})}


def in_transaction(lock_timeout: str | None) -> str:
    """What a transaction through a pooler begins with, after its BEGIN. lock_timeout None: that of LIMITS."""
    limits = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    settings = {name: LIMITS[name] for name in limits} | {name: PINNED[name] for name in MEANINGS}
    if lock_timeout is not None:
        settings["lock_timeout"] = lock_timeout
    return " ".join(f"SET LOCAL {name} = '{value}';" for name, value in settings.items())


async def complete(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Set what only newer servers know: a limit on whole transactions would end a bulk or a migration half-way."""
    if connection.get_server_version().major >= _TRANSACTION_TIMEOUT_SINCE:
        await connection.execute("SET transaction_timeout = 0")
