"""The dashboard: the files that ui/ is built into, served beside the API below any prefix."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.requests import Request

FOLDER: Final = Path(__file__).parents[1] / "ui_dist"
"""Where `make ui` and the build of the wheel put the dashboard."""
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
)
_ASSETS: Final = "assets/"
"""Folder of the files whose names contain a hash of their content."""
_FOREVER: Final = "public, max-age=31536000, immutable"
_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/vnd.microsoft.icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".md": "text/plain",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""Of this list alone, because the registry of the operating system calls scripts text on some machines."""
_GZIP: Final = re.compile(r"(?:^|,)\s*(?:gzip|\*)\s*(?:;\s*q=(?!0(?:\.0*)?\s*(?:,|$))[\d.]+\s*)?(?=,|$)", re.IGNORECASE)
_BASE: Final = re.compile(r'<base href="/"\s*/?>')
_API: Final = re.compile(r"api(?:/|$)")
_NOT_BUILT: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><base href="/"><meta name="viewport" content="width=device-width">
<title>Rowlock</title></head>
<body>
<h1>The dashboard is not built</h1>
<p>This Rowlock runs from a checkout of its source, which holds the dashboard unbuilt. Run <code>make ui</code> there,
then load this page again; the server need not be restarted. Wheels and source distributions have it built.</p>
<p>The API works: <a href="api/v1/openapi.json">its description</a>, <a href="api/v1/me">who you are</a>.</p>
</body>
</html>
"""


class Dashboard:
    """Answers what no route of the API answers: the page at every address of the dashboard, and its files."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """folder: the built dashboard; read at each request, so that a new build needs no restart."""
        self._folder = folder

    @property
    def is_built(self) -> bool:
        """Whether there is a dashboard to serve."""
        return (self._folder / "index.html").is_file()

    def answer(self, request: Request) -> Response | None:
        """The page, or one of its files; None: the address belongs to the API, or the client wants no page."""
        if request.method not in {"GET", "HEAD"}:
            return None
        path = _path_below_prefix(request)
        found = self._file(path)
        if found is not None:
            return _file_answer(request, found, path)
        if path.startswith(_ASSETS) or _API.match(path) or not (path == "" or _wants_page(request)):
            return None
        return self._page(request)

    def _file(self, path: str) -> Path | None:
        """The built file of this name; the page itself is no file, as it needs its prefix."""
        if not path or "\0" in path or path == "index.html":
            return None
        folder = self._folder.resolve()
        found = (folder / path).resolve()
        return found if found.is_relative_to(folder) and found.suffix in _MEDIA_TYPES and found.is_file() else None

    def _page(self, request: Request) -> Response:
        # The addresses in the page are relative, so this one element makes it work below every prefix. It is no
        # script: the policy allows none inside the page.
        base = quote(request.scope.get("root_path", "").rstrip("/")) + "/"
        text = (self._folder / "index.html").read_text(encoding="utf-8") if self.is_built else _NOT_BUILT
        body = _BASE.sub(f'<base href="{html.escape(base)}">', text, count=1)
        headers = {"Cache-Control": "no-cache", "Content-Security-Policy": CONTENT_SECURITY_POLICY}
        return Response(body, media_type="text/html", headers=headers)


def _path_below_prefix(request: Request) -> str:
    prefix, path = request.scope.get("root_path", "").rstrip("/"), request.scope["path"]
    inside = path.removeprefix(prefix) if path.startswith(f"{prefix}/") or path == prefix else path
    return str(inside).removeprefix("/")


def _wants_page(request: Request) -> bool:
    """Whether a browser asks. A program that forgot the prefix of the API gets a problem, which it can read."""
    return "text/html" in request.headers.get("accept", "")


def _file_answer(request: Request, file: Path, path: str) -> Response:
    headers = {
        "Cache-Control": _FOREVER if path.startswith(_ASSETS) else "no-cache",
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Vary": "Accept-Encoding",
    }
    compressed = file.with_name(f"{file.name}.gz")
    if _GZIP.search(request.headers.get("accept-encoding", "")) and compressed.is_file():
        headers["Content-Encoding"], file = "gzip", compressed
    return Response(file.read_bytes(), media_type=_MEDIA_TYPES[Path(path).suffix], headers=headers)
