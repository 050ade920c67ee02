"""Array types, registered with each new connection instead of being queried by asyncpg.

asyncpg would query the catalogue on every new connection: the first statement with a smallint[] or jsonb[] waits 10 ms
or more, and a worker's three connections send five such queries before the first job has ended. The types never change.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncpg

# OID and name of the array type, OID and name of its element: fixed in PostgreSQL's catalogue since 2014.
_ARRAYS: Final = (
    (1000, "_bool", 16, "boolean"),
    (1005, "_int2", 21, "smallint"),
    (1007, "_int4", 23, "integer"),
    (1016, "_int8", 20, "bigint"),
    (1022, "_float8", 701, "double precision"),
    (1185, "_timestamptz", 1184, "timestamp with time zone"),
    (1187, "_interval", 1186, "interval"),
    (2951, "_uuid", 2950, "uuid"),
    (3807, "_jsonb", 3802, "jsonb"),
)
_UNUSED: Final = ("basetype", "range_subtype", "attrtypoids", "attrnames", "basetype_name", "range_subtype_name")
_ROWS: Final = [
    {"oid": oid, "ns": "pg_catalog", "name": name, "kind": b"b", "depth": 0, "elemdelim": b","}
    | {"elemtype": element, "elemtype_name": element_name}
    | dict.fromkeys(_UNUSED)
    for oid, name, element, element_name in _ARRAYS
]


def register(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Register the types with a new connection; a driver without this hook queries them by itself."""
    with contextlib.suppress(AttributeError, KeyError, TypeError):
        connection.get_settings().register_data_types(_ROWS)
