from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, Secret, SecretBytes, SecretStr, field_validator

from rowlock.errors import InvalidArguments
from rowlock.flow.kinds.codec import Codec
from rowlock.model.redact import redact


class Account(BaseModel):
    name: str
    password: SecretStr | None = None


class Picky(BaseModel):
    token: SecretStr

    @field_validator("token")
    @classmethod
    def long_enough(cls, token: SecretStr) -> SecretStr:
        raise ValueError("bad token " + token.get_secret_value())


def of_type(annotation: object) -> Codec:
    def handler(value: object) -> None: ...

    handler.__annotations__ = {"value": annotation, "return": None}
    return Codec.of(handler, context_types=(), kind="report", limit=1000)


def refused(annotation: object, value: object) -> str:
    with pytest.raises(InvalidArguments) as caught:
        of_type(annotation).encode((value,))
    return str(caught.value)


def test_secrets_are_stored_behind_the_mark_that_redaction_knows() -> None:
    text = of_type(Account).encode((Account(name="a", password=SecretStr("hush")),))
    assert '"password":{"$secret":"hush"}' in text
    stored = json.loads(text)
    assert "hush" not in repr(redact(stored))


def test_a_secret_without_annotation_is_refused() -> None:
    assert refused(Any, [SecretStr("hush")]) == (
        "report: a secret would reach the handler as plain text. Annotate the parameter or field that carries it with "
        "SecretStr, SecretBytes or Secret[...]."
    )


@pytest.mark.parametrize("annotation", [SecretStr, SecretBytes, Secret[int], list[SecretStr], Account, Picky])
def test_messages_about_secrets_keep_the_value_to_themselves(annotation: object) -> None:
    value = {"name": 1, "password": ["hunter2"], "token": "hunter2"}
    message = refused(annotation, value)
    assert "hunter2" not in message
    assert "report: argument 'value" in message
    assert ", got a " in message


def test_stored_secrets_that_do_not_fit_stay_hidden() -> None:
    with pytest.raises(InvalidArguments) as caught:
        of_type(Secret[int]).decode('{"value":{"$secret":"hunter2"}}')
    assert "hunter2" not in str(caught.value)
    assert "should fit value: " in str(caught.value)


@pytest.mark.parametrize(("value", "lines"), [("abc", 1), ("abcd", 0), ("", 0)])
def test_a_secret_too_short_to_be_masked_is_warned_about(
    caplog: pytest.LogCaptureFixture, value: str, lines: int
) -> None:
    of_type(SecretStr).encode((value,))
    assert len(caplog.records) == lines
    assert not lines or "fewer than 4 characters" in caplog.text
    assert "abc" not in caplog.text
