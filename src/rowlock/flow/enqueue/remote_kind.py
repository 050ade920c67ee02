"""Remote kinds: how a job is enqueued by a process that does not have its kind's code.

Workers register the defaults of their kinds in the database; those suffice unless the kind computes options from
arguments, or has secret ones.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from rowlock.errors import InvalidArguments, UnknownKind
from rowlock.flow.kinds import json_values
from rowlock.model.kind import Kind
from rowlock.model.spelling.similar_names import closest
from rowlock.model.stored_args import VERSION

if TYPE_CHECKING:
    from rowlock.store.database import Database


async def find(database: Database, name: str, unknown: UnknownKind, here: Collection[str]) -> Kind:
    """The kind as workers registered it; UnknownKind if none did, or if its code is needed.

    unknown: what this process has said; here: the kinds that it has named.
    """
    found = await database.fetch("kind_defaults", name=name)
    if not found:
        registered = [str(row["name"]) for row in await database.fetch("kinds_registered")]
        elsewhere = [each for each in registered if each not in here]
        near = closest(name, elsewhere, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known = f"; workers have {', '.join(elsewhere)}" if elsewhere else ""
        message = f"{unknown} No worker has registered it in the database either{known}.{hint}"
        raise UnknownKind(message) from None
    if found[0]["defaults"] is None:
        message = (
            f"A {name} job cannot be submitted here: its arguments are secret, or its code computes its gate, rate "
            "or refs from them. Import the module that defines it, or submit it where that module is imported."
        )
        raise UnknownKind(message)
    return Kind.from_defaults(name, json.loads(found[0]["defaults"]))


def encode(kind: Kind, args: object, limit: int) -> str:
    """The arguments as JSON. What cannot be stored or read back is refused here; the worker checks everything else."""
    if not isinstance(args, Mapping):
        message = f"{kind.name}: its code is not here, so arguments must be passed by name. Pass an object, not a list."
        raise InvalidArguments(message)
    marked = next((name for name in args if str(name).startswith("$")), None)
    if marked is not None:
        message = f"{kind.name}: no argument can be called {str(marked)!r}."
        raise InvalidArguments(message)
    json_values.check_depth(kind.name, args)
    data = _encoded(kind, args)
    json_values.check_arguments(kind.name, data, limit)
    text = data.decode()
    return text if kind.version == 1 else f'{{"{VERSION}":{kind.version}{"" if text == "{}" else ","}{text[1:]}'


def _encoded(kind: Kind, args: Mapping[object, object]) -> bytes:
    tagger = json_values.Tagger()
    try:
        data = json_values.dump(args, tagger, simple=False)
    except (TypeError, ValueError) as error:
        message = f"{kind.name}: the arguments cannot be stored as JSON: {error}"
        raise InvalidArguments(message) from None
    if tagger.secrets:
        message = f"{kind.name}: its code is not here to say which arguments are secret. Submit it where its code is."
        raise InvalidArguments(message)
    return data
