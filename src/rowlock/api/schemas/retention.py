"""Retention rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from rowlock.api.schemas.base import YEAR, Answer, Body, DurationInput, doc

if TYPE_CHECKING:
    from rowlock.model.retention import RetentionRule

_LONGEST = 100 * YEAR


class RetentionAnswer(Answer):
    """How long finished jobs stay, and where that comes from."""

    kind: Annotated[str, doc("Kind; * for every kind.", "report")]
    state: Annotated[str, doc("Final state; * for every one.", "*")]
    keep: Annotated[float, doc("Seconds for which such jobs stay.", 2_592_000.0)]
    declared: Annotated[float | None, doc("Seconds that the code says; null: it says nothing.", 604_800.0)]
    source: Annotated[
        Literal["code", "deployment"],
        doc("Where `keep` comes from: the code, or an order for this deployment.", "code"),
    ]

    @classmethod
    def of(cls, rule: RetentionRule) -> RetentionAnswer:
        """From the value."""
        declared = None if rule.declared is None else rule.declared.total_seconds()
        return cls(
            kind=rule.kind, state=rule.state, keep=rule.keep.total_seconds(), declared=declared, source=rule.source
        )


class RetentionRulesAnswer(Answer):
    """All retention rules."""

    items: Annotated[list[RetentionAnswer], doc("Rules, the widest first; the most specific one decides.")]


class RetentionResetAnswer(Answer):
    """The rule after its order was taken back."""

    rule: Annotated[RetentionAnswer | None, doc("The rule of the code; null: the code has none, and it is gone.")]


class RetentionChange(Body):
    """How long finished jobs stay from now on."""

    keep: Annotated[
        Annotated[float, DurationInput(0.0, _LONGEST)], doc("How long such jobs stay: seconds, or a text.", "30d")
    ]
