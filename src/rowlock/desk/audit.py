"""app.audit: every change with its author, its time, and the values before and after."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rowlock.desk.guard import TRUSTED, Guard, reads
from rowlock.errors import InvalidOption
from rowlock.model import ids, json_output, redact, stored_json
from rowlock.model.access import FAILURES_WITHIN, AuditCheck, BrokenSeal, Entry, Permission, SealedEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlExecutor

REFUSALS_LISTED: Final = 20
"""Lines about refused requests of one address within five minutes; further ones are counted."""
ALL_REFUSALS_LISTED: Final = 500
"""The same for all addresses together."""
_BATCH: Final = 1000
_HEX: Final = re.compile("[0-9a-f]{64}")
_LARGEST_ID: Final = 2**63 - 1
_JOB: Final = "job:"


class Audit:
    """Reads the audit, and checks its seals. A change and its entry are one transaction."""

    def __init__(self, database: Callable[[], Database], guard: Guard = TRUSTED) -> None:
        self._open, self._guard = database, guard

    @reads(Permission.AUDIT_READ)
    async def list(
        self,
        *,
        job_id: int | str | None = None,
        target: str | None = None,
        subject: str | None = None,
        action: str | None = None,
        since: datetime | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Entry]:
        """Entries, newest first. before: the last id of the previous page; target: lane:bulk, say; action: lane.set."""
        found = await self._open().fetch(
            "audit_list",
            target=_stored_target(target) if job_id is None else f"{_JOB}{ids.parse(job_id)}",
            by_subject=subject,
            action=action,
            since=since,
            before_id=_LARGEST_ID if before is None else before,
            n=limit,
            **self._guard.visibility,
        )
        return [entry_of(row) for row in found]

    @reads(Permission.AUDIT_READ)
    async def verify(self, head: str | None = None) -> AuditCheck:
        """Seal what waits, then check every seal, from the oldest line that retention has left to the newest.

        head: `last:head` of an earlier check, which the chain must still contain; nobody can have cut off its end.
        """
        self._guard.demand(Permission.READ_ALL)
        await self._seal()
        check = await self._check(_parsed_head(head))
        if check.broken is None:
            (row,) = await self._open().fetch("audit_never_sealed")
            if row["id"] is not None:
                broken = BrokenSeal(0, row["id"], "it has no seal and waits for none")
                return replace(check, broken=broken)
        return check

    @reads(Permission.AUDIT_READ)
    async def export(self, *, after: int = 0, limit: int = 1000) -> Sequence[SealedEntry]:
        """Sealed entries in the order of the chain, oldest first. after: the n of the last one of the page before."""
        self._guard.demand(Permission.READ_ALL)
        if after == 0:
            await self._seal()
        found = await self._open().fetch("audit_export", after_n=after, n=limit)
        return [_sealed(row) for row in found]

    @reads(Permission.AUDIT_READ)
    async def verify_stretch(self, after: str | None = None, *, limit: int = 10_000) -> AuditCheck:
        """As verify(), for `limit` seals at most, so that a long chain is checked in several calls.

        after: `last:head` of the call before, where this one goes on; its seal must still be there. Whether every line
        has a seal is left to verify(), which reads the whole audit.
        """
        self._guard.demand(Permission.READ_ALL)
        start = _parsed_head(after)
        if start is None:
            await self._seal()
            return await self._check(None, most=limit)
        there = await self._open().fetch("audit_checked", after_n=start[0] - 1, previous=b"", n=1)
        if not there or (there[0]["n"], bytes(there[0]["hash"]).hex()) != start:
            broken = BrokenSeal(start[0], 0, "an earlier check saw another seal here, or a longer chain")
            return AuditCheck(0, 0, start[0], start[1], broken)
        return await self._check(None, start=start, most=limit)

    async def _seal(self) -> None:
        while (await self._open().fetch("audit_seal", most=_BATCH))[0]["sealed"] == _BATCH:
            pass

    async def _check(
        self, head: tuple[int, str] | None, *, start: tuple[int, str] = (0, ""), most: int | None = None
    ) -> AuditCheck:
        """Check the seals behind `start`, at most so many; None: all of them."""
        first = lines = 0
        last, previous = start[0], bytes.fromhex(start[1])
        broken, left = None, most
        while broken is None:
            size = _BATCH if left is None else min(_BATCH, left)
            page = await self._open().fetch("audit_checked", after_n=last, previous=previous, n=size)
            for row in page:
                broken = _break(row, last, head)
                if broken is not None:
                    break
                first, last, previous = first or row["n"], row["n"], bytes(row["hash"])
                lines += not row["missing"]
            left = None if left is None else left - len(page)
            if len(page) < size or left == 0:
                break
        if broken is None and head is not None and last < head[0]:
            broken = BrokenSeal(last + 1, 0, f"the chain ends at {last}, and an earlier check saw {head[0]}")
        return AuditCheck(lines, first, last, previous.hex(), broken, more=broken is None and left == 0)


def _break(row: Record, last: int, head: tuple[int, str] | None) -> BrokenSeal | None:
    """Why the chain does not hold at this seal. The first one may be the anchor that retention has left."""
    n, line = row["n"], row["audit_id"]
    if last and n != last + 1:
        return BrokenSeal(last + 1, 0, f"the seals {last + 1} to {n - 1} were removed")
    if row["missing"]:
        return BrokenSeal(n, line, "its line was removed") if last or n == 1 else None
    if not last and n > 1:
        return BrokenSeal(1, 0, f"the seals 1 to {n - 1} were removed, and not by retention")
    if not row["intact"]:
        return BrokenSeal(n, line, "its line or its seal was changed")
    if head is not None and head[0] == n and bytes(row["hash"]).hex() != head[1]:
        return BrokenSeal(n, line, "an earlier check saw another seal here: the chain was made anew")
    return None


def _parsed_head(head: str | None) -> tuple[int, str] | None:
    if head is None:
        return None
    place, _, text = head.partition(":")
    if not (place.isascii() and place.isdigit() and _HEX.fullmatch(text)):
        message = f"head is PLACE:HASH, as an earlier check printed it; got {head!r}."
        raise InvalidOption(message)
    return int(place), text


def _sealed(row: Record) -> SealedEntry:
    values = dict(row)
    n, hashed, text, before = (values.pop(name) for name in ("n", "hash", "sealed_text", "previous"))
    return SealedEntry(n, bytes(before or b"").hex(), bytes(hashed).hex(), text, entry_of(values))


async def record_limited(
    source: SqlExecutor,
    guard: Guard,
    action: str,
    target: str,
    *,
    keys: Mapping[str, int],
    after: Mapping[str, Any] | None = None,
) -> None:
    """Write an entry unless one of the keys was counted more often than its limit within five minutes.

    keys: what is counted, such as the address of a refused client, to the lines it may cause.
    """
    await source.fetch(
        "audit_limited",
        action=action,
        target=target,
        after=as_json(after),
        asker=guard.asker(),
        keys=list(keys),
        limits=list(keys.values()),
        within=FAILURES_WITHIN,
    )


async def record_refusal(
    source: SqlExecutor, guard: Guard, target: str, *, after: Mapping[str, Any], action: str = "access.refused"
) -> None:
    """Write down a refused request or login; strangers cannot fill the table."""
    keys = {f"refused {guard.address or guard.principal.subject}": REFUSALS_LISTED, "refused *": ALL_REFUSALS_LISTED}
    await record_limited(source, guard, action, target, keys=keys, after=after)


async def record(
    source: SqlExecutor,
    guard: Guard,
    action: str,
    target: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    by: str | None = None,
    note: str | None = None,
) -> None:
    """Write one entry. source: the transaction of the change."""
    await source.fetch(
        "audit_add",
        action=action,
        target=target,
        before=as_json(before),
        after=as_json(after),
        note=note,
        asker=guard.asker(by),
    )


def entry_of(row: Record | Mapping[str, Any]) -> Entry:
    """An Entry from its row."""
    values = dict(row)
    for name in ("before", "after"):
        values[name] = stored_json.shown(values[name], "the value")
    if values["target"].startswith(_JOB):
        values["target"] = _JOB + ids.encode(int(values["target"].removeprefix(_JOB)))
    return Entry(**values)


def _stored_target(target: str | None) -> str | None:
    """The target as the table has it: jobs are stored by number and shown by public id."""
    if target is None or not target.startswith(_JOB):
        return target
    return f"{_JOB}{ids.parse(target.removeprefix(_JOB))}"


def as_json(value: Mapping[str, Any] | None) -> str | None:
    """Values as the audit stores them: JSON, with secrets masked."""
    return None if value is None else json.dumps(redact.redact(dict(value)), default=json_output.plain)
