from __future__ import annotations

from rowlock.model import doctor_finding
from rowlock.model.doctor_finding import Finding


def test_a_finding_says_what_to_do_unless_all_is_well() -> None:
    assert doctor_finding.ok("schema", "is current") == Finding("schema", "ok", "is current")
    assert doctor_finding.warn("workers", "none", "start one") == Finding("workers", "warn", "none", "start one")
    assert doctor_finding.fail("clock", "off", "set it") == Finding("clock", "fail", "off", "set it")
