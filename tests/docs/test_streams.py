"""The page about streams: its program run, its transcripts compared with what a server sends."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from tests.api.routes.streaming import Serving
from tests.docs.page import Page
from tests.host_processes import free_port

from rowlock.model.event import NAMES

CONSOLE = re.compile(r"^```console\n\$ (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shape(text: str) -> list[Any]:
    """A transcript without its moments and ids: the fields of every frame, and what events say."""
    lines: list[Any] = []
    for line in text.strip().splitlines():
        name, _, value = line.partition(": ")
        if name == "data":
            data = json.loads(value)
            lines.append([sorted(data), [[one["event"], sorted(one)] for one in data.get("changes", ())]])
        else:
            lines.append(re.sub(r"\d+\.\d+:\d+:[\d,]*", "position", line))
    return lines


async def curl(command: str, until: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "curl", "-sN", command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    text = ""
    async with asyncio.timeout(30):
        while until not in text or not text.endswith("\n\n"):
            text += (await process.stdout.readline()).decode()
    if process.returncode is None:
        process.kill()
    await process.wait()
    return text


async def test_the_page_does_what_it_says(database_url: str) -> None:
    page = Page("streams.md", database_url)
    await page.run()
    try:
        assert page.printed == ["job.created", "job.claimed", "job.completed", "end"]
        (one, one_told), (everything, all_told) = CONSOLE.findall(page.text)
        job_id = page.names["job"].public_id
        async with Serving(database_url, free_port()) as serving:
            host = serving.base.removesuffix("/api/v1")
            path = one.split("8000")[1].replace("363M-KAPQ-NW11-0P", job_id)
            assert shape(await curl(host + path, "event: end")) == shape(one_told)
            listening = asyncio.ensure_future(curl(host + everything.split("8000")[1].strip("'"), "changes"))
            async with asyncio.timeout(30):
                while not listening.done():
                    await page.names["invoice"].enqueue(order_id=8)
                    await asyncio.wait({listening}, timeout=2)
            found = shape(listening.result())
            expected = shape(all_told)
            assert found[: len(expected) - 1] == expected[:-1]
            assert found[len(expected) - 1][0] == expected[-1][0]
            assert found[len(expected) - 1][1][0] == expected[-1][1][0]
    finally:
        await page.close()


def test_every_event_is_documented() -> None:
    text = Page("streams.md", "").text
    for name in NAMES:
        assert f"`{name}`" in text or f"`{name.removeprefix('job.')}`" in text, name
