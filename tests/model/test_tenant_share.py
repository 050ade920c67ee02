from __future__ import annotations

from rowlock.model.tenant_share import SHARES, share_of


def test_the_share_of_a_tenant_is_the_same_in_every_release() -> None:
    assert share_of(None) == 0
    assert (share_of("acme"), share_of("zeta")) == (63, 20)
    assert {share_of(f"tenant {n}") for n in range(5000)} == set(range(1, SHARES + 1))
