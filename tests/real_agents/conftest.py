"""Fixtures for tests with the real CLIs: where they are, a provider to fail at, and private homes that point to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kandev_routing_sdk.testing.provider import LoopbackProvider
from tests.real_agents._agents import Agents, AgentsMissing, install
from tests.real_agents._homes import (
    CLAUDE_API_KEY,
    CLAUDE_OAUTH_TOKEN,
    CODEX_API_KEY,
    CODEX_KEY_VARIABLE,
    OPENCODE_API_KEY,
    OPENCODE_KEY_VARIABLE,
    ClaudeAuth,
    ClaudeEnv,
    CodexEnv,
    CodexHome,
    Homes,
    OpencodeEnv,
)
from tests.real_agents._routes import Setup

# Read at import: the session's private home hides the user's cache folder and npm's settings.
_ENVIRON = dict(os.environ)

_CREDENTIAL = {
    "api_key": {"ANTHROPIC_API_KEY": CLAUDE_API_KEY},
    "oauth": {"CLAUDE_CODE_OAUTH_TOKEN": CLAUDE_OAUTH_TOKEN},
    "auth_token": {"ANTHROPIC_AUTH_TOKEN": CLAUDE_API_KEY},
    "none": {},
}


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


def _base_env(agents: Agents, home: Path) -> dict[str, str]:
    """A home that holds nothing, and nothing inherited but where programs are: no ambient login can answer."""
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(agents.node), _ENVIRON.get("PATH", os.defpath)])
    return {"PATH": path, "HOME": str(home), "TMPDIR": str(temporary), "LANG": "C.UTF-8"}


@pytest.fixture
def claude_env(tmp_path: Path, agents: Agents) -> ClaudeEnv:
    """Make the whole environment of a Claude that meets ``scenario``.

    ``retries=None`` leaves the CLI's own retries alone: bounding them is the adapter's duty, and a test of the adapter
    must see it done. ``IS_SANDBOX`` lets it use tools without asking while it runs as root.
    """

    def make(
        provider: LoopbackProvider, scenario: str, *, auth: ClaudeAuth = "api_key", retries: int | None = None
    ) -> dict[str, str]:
        home = tmp_path / "claude-home"
        return {
            **_base_env(agents, home),
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
def codex_env(tmp_path: Path, agents: Agents, codex_home: CodexHome) -> CodexEnv:
    """Make the whole environment of a Codex that meets ``scenario``."""

    def make(provider: LoopbackProvider, scenario: str, *, retries: int | None = None) -> dict[str, str]:
        home = codex_home(provider, scenario, retries=retries)
        return {
            **_base_env(agents, tmp_path / "codex-user"),
            "CODEX_HOME": str(home),
            CODEX_KEY_VARIABLE: CODEX_API_KEY,
        }

    return make


@pytest.fixture
def opencode_env(tmp_path: Path, agents: Agents) -> OpencodeEnv:
    """Make the whole environment of an OpenCode that meets ``scenario``, by way of Chat Completions."""

    def make(provider: LoopbackProvider, scenario: str) -> dict[str, str]:
        home = tmp_path / "opencode-home"
        config = home / ".config" / "opencode"
        config.mkdir(parents=True, exist_ok=True)
        limit = {"context": 200_000, "output": 8_000}
        loopback = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Loopback",
            "options": {"baseURL": f"{provider.url(scenario)}/v1", "apiKey": f"{{env:{OPENCODE_KEY_VARIABLE}}}"},
            "models": {"loopback-model-1": {"name": "Loopback model", "tool_call": True, "limit": limit}},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "model": "loopback/loopback-model-1",
            "small_model": "loopback/loopback-model-1",
            "permission": {"bash": "allow", "edit": "allow"},
            "enabled_providers": ["loopback"],
            "provider": {"loopback": loopback},
        }
        (config / "opencode.json").write_text(json.dumps(settings))
        models = home / "models.json"
        models.write_text("{}")
        return {
            **_base_env(agents, home),
            OPENCODE_KEY_VARIABLE: OPENCODE_API_KEY,
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_FFF": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_TERMINAL_TITLE": "1",
            "OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER": "1",
            # Its own list of models takes seconds to read; the one that is used stands in the configuration.
            "OPENCODE_MODELS_PATH": str(models),
            "OPENCODE_PURE": "1",
            # It would fetch its plugins' types for the folder of the configuration.
            "npm_config_offline": "true",
        }

    return make


@pytest.fixture
def homes(claude_env: ClaudeEnv, codex_env: CodexEnv, opencode_env: OpencodeEnv) -> Homes:
    """The families' environments, together."""
    return Homes(claude_env, codex_env, opencode_env)


@pytest.fixture
def setup(tmp_path: Path, provider: LoopbackProvider, agents: Agents, homes: Homes) -> Setup:
    """See :class:`Setup`."""
    return Setup(tmp_path, provider, agents, homes)
