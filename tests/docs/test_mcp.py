"""docs/howto/mcp.md names every tool of the server, and every permission that a tool needs."""

from __future__ import annotations

import json
import re

from tests.docs.page import HOWTO

from rowlock import Rowlock
from rowlock.cli.mcp_server import LONGEST_ANSWER, LONGEST_TEXT, MOST, McpTools
from rowlock.model.access import SYSTEM, Principal

PAGE = (HOWTO / "mcp.md").read_text(encoding="utf-8")


async def test_the_page_names_every_tool_and_limit() -> None:
    async def nobody() -> Principal:
        return SYSTEM

    tools = await McpTools(Rowlock("postgresql://nowhere/x"), nobody, orders=True).server().list_tools()
    table = re.findall(r"^\| (`[^|]*) \|", PAGE.partition("## Tools")[2], re.MULTILINE)
    assert {tool.name for tool in tools} == set(re.findall(r"`(\w+)`", " ".join(table)))
    for number in (f"{MOST} items", f"{LONGEST_TEXT:,} characters", f"{LONGEST_ANSWER:,}"):
        assert number in PAGE


def test_the_configuration_is_json_that_starts_the_command() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    server = json.loads(block)["mcpServers"]["rowlock"]
    assert (server["command"], server["args"]) == ("rowlock", ["mcp"])
