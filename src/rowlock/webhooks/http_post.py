"""One POST over HTTP/1.1 to an address that was checked before.

On asyncio's own streams: an HTTP client resolves names by itself, after any check of ours, follows redirects and reads
bodies. What is needed here is a request line, a few headers and a status, and a worker needs no package for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rowlock.errors import WebhookFailed
from rowlock.webhooks.addresses import allowed_addresses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from urllib.parse import SplitResult

    from rowlock.model.webhook_rules import WebhookRules
    from rowlock.webhooks.addresses import Resolve

SECONDS: Final = 15.0
"""For everything: resolving, connecting, TLS, sending, and the head of the answer."""
_LARGEST_HEAD: Final = 16_384
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: |\r?$)")
_MOST_INTERIM: Final = 5
_CLOSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The head of an answer. retry_after: seconds that it asks to wait; None: it does not say."""

    status: int
    retry_after: float | None = None


async def post(
    url: SplitResult,
    headers: Mapping[str, str],
    body: bytes,
    *,
    rules: WebhookRules,
    resolve: Resolve,
    seconds: float = SECONDS,
) -> HttpAnswer:
    """Send the body and read the status. WebhookFailed: no answer came; WebhookRefused: the address is not allowed."""
    rules.check_scheme(url.scheme)
    try:
        async with asyncio.timeout(seconds):
            return await _post(url, headers, body, rules, resolve)
    except TimeoutError:
        message = f"no answer within {seconds:g} s"
    except ssl.SSLError as error:
        message = f"TLS failed: {error.reason or type(error).__name__}"
    except asyncio.IncompleteReadError:
        message = "the connection was closed without an answer"
    except asyncio.LimitOverrunError:
        message = f"the head of the answer is longer than {_LARGEST_HEAD} bytes"
    except OSError as error:
        message = f"no connection: {error.strerror or type(error).__name__}"
    raise WebhookFailed(message)


async def _post(
    url: SplitResult, headers: Mapping[str, str], body: bytes, rules: WebhookRules, resolve: Resolve
) -> HttpAnswer:
    host = url.hostname or ""
    port = url.port or (443 if url.scheme == "https" else 80)
    context = ssl.create_default_context() if url.scheme == "https" else None
    addresses = await allowed_addresses(host, port, rules, resolve)
    reader, writer = await _connect(addresses, port, context, host)
    try:
        writer.write(_request(url, headers, body))
        await writer.drain()
        return await _read_answer(reader)
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await writer.wait_closed()


async def _connect(
    addresses: Sequence[str], port: int, context: ssl.SSLContext | None, host: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to one of these very addresses; the certificate is still checked against the name."""
    last: OSError | None = None
    for address in addresses:
        try:
            return await asyncio.open_connection(
                address, port, ssl=context, server_hostname=host if context else None, limit=_LARGEST_HEAD
            )
        except ssl.SSLError:
            raise
        except OSError as error:
            last = error
    raise last or ConnectionRefusedError


def _request(url: SplitResult, headers: Mapping[str, str], body: bytes) -> bytes:
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    said = {"Host": url.netloc, **headers, "Content-Length": str(len(body)), "Connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"POST {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


async def _read_answer(reader: asyncio.StreamReader) -> HttpAnswer:
    """The status; the body stays unread, so that nobody learns through Rowlock what an address answers."""
    for _ in range(_MOST_INTERIM):
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        found = _STATUS.match(line)
        if found is None:
            message = "the answer is not HTTP/1.1"
            raise WebhookFailed(message)
        if (status := int(found[1])) >= 200:  # noqa: PLR2004 - 1xx are interim answers
            return HttpAnswer(status, _retry_after(rest))
    message = "only interim answers came"
    raise WebhookFailed(message)


def _retry_after(head: bytes) -> float | None:
    found = re.search(rb"(?im)^retry-after:[ \t]*([0-9]{1,6})[ \t]*\r?$", head)
    return None if found is None else float(found[1])
