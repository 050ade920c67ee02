"""LoginAttempt: a login at an identity provider that is under way, and the page that follows it."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import asdict, dataclass
from typing import Final

from rowlock.api.problems import Problem

ATTEMPT_SECONDS: Final = 600
"""How long a person may take at the identity provider."""
_LONGEST_PATH: Final = 1000


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A login under way, kept by the browser in a cookie that scripts cannot read. return_to: a path of this server."""

    state: str
    nonce: str
    verifier: str
    return_to: str

    @classmethod
    def begin(cls, return_to: str) -> LoginAttempt:
        """A new one, with 256 random bits each."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(state, nonce, verifier, return_to)

    @property
    def cookie(self) -> str:
        """As the cookie holds it."""
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def parse(cls, cookie: str) -> LoginAttempt | None:
        """Read the cookie; None: it holds something else."""
        try:
            stored = json.loads(base64.urlsafe_b64decode(cookie))
            attempt = cls(**stored)
        except (ValueError, TypeError, RecursionError):
            return None
        return attempt if all(isinstance(each, str) for each in stored.values()) else None


def local_path(text: str) -> str:
    """The path of this server that a person returns to after the login; a Problem for an address elsewhere."""
    fine = text.startswith("/") and not text.startswith(("//", "/\\")) and len(text) <= _LONGEST_PATH
    if not fine or "\\" in text or not text.isprintable() or not text.isascii() or " " in text:
        raise Problem(
            "bad-request", f"return_to is a path of this server, such as /jobs?q=state:failed; got {text[:100]!r}."
        )
    return text
