"""The page on serving, executed: its Python, and its transcripts with a real curl against a real server."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.conftest import running
from tests.docs.page import Page

if TYPE_CHECKING:
    from collections.abc import Iterator

CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (curl .*)\n(.*)$", re.MULTILINE)


def transcripts(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for block in CONSOLE.findall(text):
        for command, answer in COMMAND.findall(block):
            assert answer.endswith(", …}"), answer
            yield command, json.loads(answer.removesuffix(", …}") + "}")


def _with(said: dict[str, str], word: str) -> str:
    for name, value in said.items():
        word = word.replace(name, value)
    return word


@pytest.mark.skipif(shutil.which("curl") is None, reason="the transcripts are curl's")
async def test_the_page_does_what_it_shows(database_url: str) -> None:
    page = Page("serve.md", database_url)
    await page.run()
    try:
        shown = list(transcripts(page.text))
        assert len(shown) == page.text.count("$ curl")
        token = page.names["api"].loopback.token
        with running(page.names["api"]) as url:
            for command, promised in shown:
                said = {"localhost:8000": url.removeprefix("http://"), "$AUTH": f"Authorization: Bearer {token}"}
                words = [_with(said, word) for word in shlex.split(command)]
                told = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=True)
                answer = json.loads(told.stdout)
                assert {name: answer.get(name) for name in promised} == promised, command
    finally:
        await page.close()
