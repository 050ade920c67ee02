"""Mutations of what people may ask and order."""

from __future__ import annotations

from typing import Final

from mutations.mutation import Mutation

OF_ACCESS: Final = "tests/desk/test_access.py::test_"
OF_TOKENS: Final = "tests/desk/test_tokens.py::test_"

MUTATIONS: Final = (
    Mutation(
        "a stream that was asked for just before the end holds it up",
        "desk/lookouts.py",
        "if self._closed:",
        "if False:",
        ("tests/api/test_streams.py::test_streams_end_at_once_when_they_are_closed",),
    ),
    Mutation(
        "a bulk order needs no preview of its own",
        "desk/operations.py",
        "if filter_hash != seen.filter_hash:",
        "if False:",
        ("tests/desk/test_bulk.py::test_what_was_not_previewed_is_not_ordered",),
    ),
    Mutation(
        "an order does not look whether its job is in sight",
        "desk/sight.py",
        "if not self._guard.sees_all:",
        "if self._guard.read_only:",
        (f"{OF_ACCESS}another_tenants_job_is_not_there",),
    ),
    Mutation(
        "the guard asks for no permission",
        "desk/guard.py",
        "if not self.principal.may(permission):",
        "if self.principal is None:",
        (f"{OF_ACCESS}every_method_for_every_role",),
    ),
    Mutation(
        "a read-only desk takes orders",
        "desk/guard.py",
        "if unsafe and self.read_only:",
        "if unsafe and self.principal is None:",
        (f"{OF_ACCESS}a_read_only_desk_changes_nothing",),
    ),
    Mutation(
        "a token holds whatever its secret",
        "desk/identity.py",
        "if not hmac.compare_digest(kept, parts.hash) or not found",
        "if not found",
        (f"{OF_TOKENS}a_token_that_does_not_hold_is_refused",),
    ),
    Mutation(
        "a token is worth more than its maker",
        "desk/tokens.py",
        "        holds(self._guard, own.union",
        "        (own.union",
        (f"{OF_TOKENS}nobody_gives_or_takes_what_they_do_not_hold",),
    ),
)
