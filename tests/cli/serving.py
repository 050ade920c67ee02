"""`rowlock serve` as a process of its own, on a port that the system chooses."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx
from tests.waiting import in_time

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from tests.cli.conftest import Cli

_SERVING: Final = re.compile(r"serving (http://\S+)")
_LINK: Final = re.compile(r"http://\S+/api/v1/auth/local\?token=(\S+)")


class ServeProcess(NamedTuple):
    """The process, a client that sends its token, and the link that it printed. link: empty with authentication."""

    process: asyncio.subprocess.Process
    client: httpx.AsyncClient
    link: str

    @property
    def port(self) -> int:
        assert self.client.base_url.port is not None
        return self.client.base_url.port


@contextlib.asynccontextmanager
async def serve_process(cli: Cli, *arguments: str) -> AsyncIterator[ServeProcess]:
    process = await cli.start("serve", "--app", "tasks:app", "--port", "0", *arguments)
    assert process.stderr is not None
    try:
        line = (await in_time(process.stderr.readline())).decode()
        found = _SERVING.search(line)
        assert found, line + (await process.stderr.read()).decode()
        headers, link = {}, ""
        if "--auth" not in arguments and "--insecure-no-auth" not in arguments:
            for_browsers, for_shells = [(await in_time(process.stderr.readline())).decode() for _ in range(2)]
            token = _LINK.search(for_browsers)
            assert token, for_browsers
            assert f'curl -H "Authorization: Bearer {token[1]}" {found[1]}/me' in for_shells
            headers, link = {"Authorization": f"Bearer {token[1]}"}, token[0]
        async with httpx.AsyncClient(base_url=found[1], timeout=20, headers=headers) as client:
            yield ServeProcess(process, client, link)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
