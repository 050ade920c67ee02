"""A small OpenID Connect provider as a process of its own: `python -m tests.oidc_provider`; it prints its issuer.

The parameter `as` of the authorisation address names who logs in there, and with it what goes wrong.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey
from typing_extensions import override

CLIENT: Final = "rowlock"
SECRET: Final = "not-so-secret"  # noqa: S105 - of this provider alone
KEY: Final = RSAKey.generate_key(2048, {"kid": "now"})
STRANGERS_KEY: Final = RSAKey.generate_key(2048, {"kid": "now"})
NEXT_KEY: Final = RSAKey.generate_key(2048, {"kid": "next"})


class Provider(BaseHTTPRequestHandler):
    """Answers requests of browsers and of Rowlock."""

    issuer = ""
    keys: Final = [KEY]
    codes: Final[dict[str, dict[str, str]]] = {}

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path.endswith("/.well-known/openid-configuration"):
            self.send_json(self.description())
        elif parts.path == "/jwks":
            self.send_json({"keys": [key.as_dict(private=False) for key in self.keys]})
        elif parts.path == "/authorize":
            self.redirect(self.authorised(query))
        elif parts.path == "/rotate":
            self.keys[:] = [NEXT_KEY]
            self.send_json({})
        else:
            self.send_json({}, 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        sent = {name: values[0] for name, values in parse_qs(body).items()}
        answer = self.exchanged(sent)
        self.send_json(answer, 400 if "error" in answer else 200)

    def description(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "end_session_endpoint": f"{self.issuer}/logout",
            "authorization_response_iss_parameter_supported": True,
        }

    def authorised(self, query: dict[str, str]) -> str:
        """Where the browser goes after the login."""
        assert (query["client_id"], query["response_type"]) == (CLIENT, "code")
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        answer = {"state": query["state"], "iss": self.issuer, "session_state": "of this provider"}
        if query.get("as") == "denied":
            answer |= {"error": "access_denied", "error_description": "Ada said <no>"}
        else:
            answer["code"] = secrets.token_urlsafe(16)
            self.codes[answer["code"]] = query
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def exchanged(self, sent: dict[str, str]) -> dict[str, Any]:
        """The id token for a code, once."""
        basic = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        if tuple(map(unquote, basic.split(":"))) != (CLIENT, SECRET):
            return {"error": "invalid_client"}
        begun = self.codes.pop(sent["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(sent["code_verifier"].encode()).digest()).decode()
        if begun is None or begun["code_challenge"] != challenge.rstrip("="):
            return {"error": "invalid_grant"}
        assert begun["redirect_uri"] == sent["redirect_uri"]
        who = begun.get("as", "ada")
        return {"access_token": "x", "token_type": "Bearer", "id_token": self.id_token(who, begun["nonce"])}

    def id_token(self, who: str, nonce: str) -> str:
        now = int(time.time())
        claims: dict[str, Any] = {"iss": self.issuer, "aud": CLIENT, "sub": who, "name": "Ada", "nonce": nonce}
        claims |= {"iat": now, "exp": now + 300, "groups": ["staff", "chess"], "org": "acme"}
        changes: dict[str, dict[str, Any]] = {
            "expired": {"iat": now - 2000, "exp": now - 1000},
            "from the future": {"iat": now + 1000, "exp": now + 2000},
            "of another login": {"nonce": "another"},
            "of another issuer": {"iss": "https://elsewhere.example"},
            "for another": {"aud": "another"},
            "for several": {"aud": [CLIENT, "another"]},
            "nobody": {"sub": ""},
            "without a tenant": {"org": None},
            "without a role": {"groups": ["chess"]},
        }
        claims |= changes.get(who, {})
        key = STRANGERS_KEY if who == "forged" else self.keys[0]
        return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)

    def send_json(self, answer: object, status: int = 200) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def redirect(self, url: str) -> None:
        self.send_response(303)
        self.send_header("Location", url)
        self.send_header("Content-Length", "0")
        self.end_headers()

    @override
    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        Provider.issuer = f"http://127.0.0.1:{server.server_port}"
        print(Provider.issuer, flush=True)  # noqa: T201 - for the test that started it
        server.serve_forever()
