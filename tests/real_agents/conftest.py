"""Fixtures for tests with the real CLIs: where they are, a provider to fail at, and private homes that point to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol

import pytest

from kandev_routing_sdk.testing.provider import LoopbackProvider
from tests.real_agents._agents import Agents, AgentsMissing, install

# Read at import: the session's private home hides the user's cache folder and npm's settings.
_ENVIRON = dict(os.environ)

# Fakes that look real, so that a leak into a log, a row or the other agent is found by searching for them.
CLAUDE_API_KEY = "sk-ant-api03-loopback-000000000000000000000000000000"
CLAUDE_OAUTH_TOKEN = "sk-ant-oat01-loopback-000000000000000000000000000000"
CODEX_API_KEY = "sk-loopback-0000000000000000000000000000000000"
CODEX_KEY_VARIABLE = "LOOPBACK_API_KEY"

ClaudeAuth = Literal["api_key", "oauth", "auth_token", "none"]
_CREDENTIAL = {
    "api_key": {"ANTHROPIC_API_KEY": CLAUDE_API_KEY},
    "oauth": {"CLAUDE_CODE_OAUTH_TOKEN": CLAUDE_OAUTH_TOKEN},
    "auth_token": {"ANTHROPIC_AUTH_TOKEN": CLAUDE_API_KEY},
    "none": {},
}


class ClaudeEnv(Protocol):
    def __call__(
        self, provider: LoopbackProvider, scenario: str, *, auth: ClaudeAuth = "api_key", retries: int | None = None
    ) -> dict[str, str]: ...


class CodexHome(Protocol):
    def __call__(self, provider: LoopbackProvider, scenario: str, *, retries: int | None = None) -> Path: ...


class CodexEnv(Protocol):
    def __call__(self, provider: LoopbackProvider, scenario: str, *, retries: int | None = None) -> dict[str, str]: ...


@pytest.fixture(scope="session")
def agents() -> Agents:
    """The pinned CLIs; a machine where they cannot be installed fails the tests, it does not skip them."""
    try:
        return install(_ENVIRON)
    except AgentsMissing as error:
        pytest.fail(f"the real agents are not there: {error}", pytrace=False)


@pytest.fixture
def provider() -> Iterator[LoopbackProvider]:
    """A provider of this test's own."""
    with LoopbackProvider() as running:
        yield running


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """An empty folder for the agents to work in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def _base_env(home: Path) -> dict[str, str]:
    """A home that holds nothing, and nothing inherited but where programs are: no ambient login can answer."""
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return {"PATH": _ENVIRON.get("PATH", os.defpath), "HOME": str(home), "TMPDIR": str(temporary), "LANG": "C.UTF-8"}


@pytest.fixture
def claude_env(tmp_path: Path) -> ClaudeEnv:
    """Make the whole environment of a Claude that meets ``scenario``.

    ``retries=None`` leaves the CLI's own retries alone: bounding them is the adapter's duty, and a test of the adapter
    must see it done. ``IS_SANDBOX`` lets it use tools without asking while it runs as root.
    """

    def make(
        provider: LoopbackProvider, scenario: str, *, auth: ClaudeAuth = "api_key", retries: int | None = None
    ) -> dict[str, str]:
        home = tmp_path / "claude-home"
        return {
            **_base_env(home),
            **_CREDENTIAL[auth],
            **({} if retries is None else {"CLAUDE_CODE_MAX_RETRIES": str(retries)}),
            "ANTHROPIC_BASE_URL": provider.url(scenario),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CONFIG_DIR": str(home / "config"),
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",
        }

    return make


@pytest.fixture
def codex_home(tmp_path: Path) -> CodexHome:
    """Make a ``CODEX_HOME`` whose model provider is ``scenario``; its key comes from ``CODEX_KEY_VARIABLE``."""

    def make(provider: LoopbackProvider, scenario: str, *, retries: int | None = None) -> Path:
        home = tmp_path / "codex-home"
        home.mkdir(exist_ok=True)  # Codex refuses a CODEX_HOME that does not exist
        bounds = "" if retries is None else f"request_max_retries = {retries}\nstream_max_retries = {retries}\n"
        (home / "config.toml").write_text(
            f"""\
model = "loopback-model-1"
model_provider = "loopback"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.loopback]
name = "Loopback"
base_url = "{provider.url(scenario)}/v1"
wire_api = "responses"
env_key = "{CODEX_KEY_VARIABLE}"
{bounds}"""
        )
        return home

    return make


@pytest.fixture
def codex_env(tmp_path: Path, codex_home: CodexHome) -> CodexEnv:
    """Make the whole environment of a Codex that meets ``scenario``."""

    def make(provider: LoopbackProvider, scenario: str, *, retries: int | None = None) -> dict[str, str]:
        home = codex_home(provider, scenario, retries=retries)
        return {
            **_base_env(tmp_path / "codex-user"),
            "CODEX_HOME": str(home),
            CODEX_KEY_VARIABLE: CODEX_API_KEY,
        }

    return make
