"""Help with searches: suggestions, and counts by state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rowlock.api.schemas.base import Answer, doc
from rowlock.api.schemas.fields import CountAnswer
from rowlock.api.schemas.workers import COUNT

if TYPE_CHECKING:
    from rowlock.model.search_suggestion import SearchSuggestion, SearchSuggestions


class SuggestionAnswer(Answer):
    """One suggestion."""

    text: Annotated[str, doc("What replaces the part of the search; in quotes where it needs them.", "send_invoice")]
    label: Annotated[str, doc("What people read.", "send_invoice")]
    of: Annotated[str, doc("`field`, or the field whose value it is.", "kind")]

    @classmethod
    def suggested(cls, suggestion: SearchSuggestion) -> SuggestionAnswer:
        """From the desk's value."""
        return cls(text=suggestion.text, label=suggestion.label, of=suggestion.of)


class SuggestionsAnswer(Answer):
    """Suggestions for one part of a search."""

    start: Annotated[int, doc("Position of the first character that a suggestion replaces.", 5)]
    end: Annotated[int, doc("Position behind the last one.", 9)]
    items: Annotated[list[SuggestionAnswer], doc("At most 20 suggestions.")]

    @classmethod
    def of(cls, found: SearchSuggestions) -> SuggestionsAnswer:
        """From the desk's value."""
        return cls(start=found.start, end=found.end, items=[SuggestionAnswer.suggested(each) for each in found.items])


class StateCountsAnswer(Answer):
    """How many jobs a search finds in each state."""

    states: Annotated[dict[str, CountAnswer], doc("State to count; each stops at 1,000.", {"queued": COUNT})]
