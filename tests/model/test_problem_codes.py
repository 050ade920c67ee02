"""Codes of problems are stable names with a fitting status."""

from __future__ import annotations

import re
from http import HTTPStatus

from rowlock.model.problem_codes import CODES


def test_every_code_has_its_own_name_a_client_or_server_error_and_a_title() -> None:
    for name, code in CODES.items():
        assert code.name == name
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert HTTPStatus(code.status) >= HTTPStatus.BAD_REQUEST
        assert code.title[0].isupper()
        assert not code.title.endswith(".")
