"""Codex's tools, as its items name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TOOLS: Final[Mapping[str, str]] = {
    "command_execution": "shell",
    "file_change": "edit",
    "mcp_tool_call": "mcp",
    "web_search": "web search",
    "collab_tool_call": "subagent",
    "image_view": "image",
    "image_generation": "image",
    "commandExecution": "shell",
    "fileChange": "edit",
    "mcpToolCall": "mcp",
    "webSearch": "web search",
    "collabAgentToolCall": "subagent",
    "imageView": "image",
    "imageGeneration": "image",
}
"""Item types that are tools (``exec`` and ``app-server`` spell them differently), and how they are shown: never with their
arguments, which may hold secrets."""
FAILED_TOOL: Final = frozenset({"failed", "declined"})
