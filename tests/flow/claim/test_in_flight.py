from __future__ import annotations

import pytest

from rowlock.flow.claim.in_flight import ClaimsInFlight


def test_a_claim_is_under_way_until_its_jobs_have_their_slots() -> None:
    claims = ClaimsInFlight()
    with claims.sending():
        assert claims
    assert not claims
    assert not claims.answer_lost


def test_a_claim_that_failed_may_have_been_made_and_is_looked_for_twice() -> None:
    claims = ClaimsInFlight()
    with pytest.raises(OSError, match="gone"), claims.sending():
        raise OSError("gone")
    assert not claims
    for _ in range(2):
        assert claims.answer_lost
        claims.checked()
    assert not claims.answer_lost
