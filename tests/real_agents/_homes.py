"""What the agents' private homes hold: fake credentials, and how a test asks for an environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from kandev_routing_sdk.testing.provider import LoopbackProvider

# Fakes that look real, so that a leak into a log, a row or the other agent is found by searching for them.
CLAUDE_API_KEY = "sk-ant-api03-loopback-000000000000000000000000000000"
CLAUDE_OAUTH_TOKEN = "sk-ant-oat01-loopback-000000000000000000000000000000"
CODEX_API_KEY = "sk-loopback-0000000000000000000000000000000000"
CODEX_KEY_VARIABLE = "LOOPBACK_API_KEY"
OPENCODE_API_KEY = "sk-loopback-1111111111111111111111111111111111"
OPENCODE_KEY_VARIABLE = "LOOPBACK_OPENCODE_KEY"

ClaudeAuth = Literal["api_key", "oauth", "auth_token", "none"]


class ClaudeEnv(Protocol):
    def __call__(
        self, provider: LoopbackProvider, scenario: str, *, auth: ClaudeAuth = "api_key", retries: int | None = None
    ) -> dict[str, str]: ...


class CodexHome(Protocol):
    def __call__(self, provider: LoopbackProvider, scenario: str, *, retries: int | None = None) -> Path: ...


class CodexEnv(Protocol):
    def __call__(self, provider: LoopbackProvider, scenario: str, *, retries: int | None = None) -> dict[str, str]: ...


class OpencodeEnv(Protocol):
    def __call__(self, provider: LoopbackProvider, scenario: str) -> dict[str, str]: ...


@dataclass(frozen=True)
class Homes:
    """How to make each family's environment."""

    claude: ClaudeEnv
    codex: CodexEnv
    opencode: OpencodeEnv
