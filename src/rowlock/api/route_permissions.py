"""RoutePermissions: what a route demands, as data. OpenAPI, the reference page and the matrix test are made from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rowlock.model.access import Permission

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RoutePermissions:
    """All of `always`, the one of `by_case` whose case holds, and those of `also` whose condition holds."""

    always: tuple[Permission, ...] = ()
    by_case: Mapping[str, Permission] = field(default_factory=dict)
    """Case, such as "a waiting job", to the permission that it needs; exactly one case holds."""
    also: Mapping[str, Permission] = field(default_factory=dict)
    """Condition, such as "for another tenant", to a further permission."""

    @classmethod
    def of(cls, needs: RoutePermissions | Permission | None) -> RoutePermissions:
        """From one permission, or from None: every caller that is known."""
        return needs if isinstance(needs, RoutePermissions) else cls(() if needs is None else (needs,))

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> RoutePermissions:
        """From `data`, as the OpenAPI document has it."""
        by_case, also = ({case: Permission(name) for case, name in data[key].items()} for key in ("by_case", "also"))
        return cls(tuple(Permission(name) for name in data["always"]), by_case, also)

    @property
    def text(self) -> str:
        """For people: `jobs:read` and, for cancel, `jobs:cancel`; empty: none is needed."""
        cases: dict[Permission, list[str]] = {}
        for case, permission in self.by_case.items():
            cases.setdefault(permission, []).append(case)
        always = " and ".join(f"`{each}`" for each in self.always)
        one = ", ".join(f"`{permission}` for {' or '.join(named)}" for permission, named in cases.items())
        text = " and ".join(part for part in (always, one) if part)
        further = [f"{condition} also `{permission}`" for condition, permission in self.also.items()]
        return "; ".join([text, *further]) if text else ""

    @property
    def data(self) -> dict[str, object]:
        """For programs, as the OpenAPI document has it under x-permissions."""
        return {
            "always": [str(each) for each in self.always],
            "by_case": {case: str(each) for case, each in self.by_case.items()},
            "also": {condition: str(each) for condition, each in self.also.items()},
        }
