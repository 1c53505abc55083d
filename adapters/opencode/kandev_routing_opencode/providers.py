"""The providers that OpenCode knows by itself: the variable that holds the key, and where the service is.

From the public list that OpenCode ships with. A provider that is not here is no worse off: its profile says which variable it
needs, and its health stays with the profile unless the configuration names its address and its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Known(NamedTuple):
    """A provider of OpenCode's own list."""

    variable: str
    """Holds the key; when it is not set, only a login does."""
    host: str = ""
    """The vendor's own host, where it serves nothing but this."""
    base_url: str = ""
    """A variable that moves it elsewhere."""
    also: tuple[str, ...] = ()
    """Name patterns of more variables that its key, or the account, depends on."""


KNOWN: Final[Mapping[str, Known]] = MappingProxyType(
    {
        "anthropic": Known("ANTHROPIC_API_KEY", "api.anthropic.com", "ANTHROPIC_BASE_URL"),
        "openai": Known("OPENAI_API_KEY", "api.openai.com", "OPENAI_BASE_URL"),
        "google": Known(
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "generativelanguage.googleapis.com",
            also=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        ),
        "opencode": Known("OPENCODE_API_KEY"),
        "opencode-go": Known("OPENCODE_API_KEY"),
        "openrouter": Known("OPENROUTER_API_KEY", "openrouter.ai/api"),
        "vercel": Known("AI_GATEWAY_API_KEY"),
        "github-copilot": Known("GITHUB_TOKEN", "api.githubcopilot.com"),
        "gitlab": Known("GITLAB_TOKEN"),
        "alibaba": Known("DASHSCOPE_API_KEY"),
        "baseten": Known("BASETEN_API_KEY", "inference.baseten.co"),
        "cerebras": Known("CEREBRAS_API_KEY", "api.cerebras.ai"),
        "chutes": Known("CHUTES_API_KEY", "llm.chutes.ai"),
        "cohere": Known("COHERE_API_KEY"),
        "deepinfra": Known("DEEPINFRA_API_KEY"),
        "deepseek": Known("DEEPSEEK_API_KEY", "api.deepseek.com"),
        "fireworks-ai": Known("FIREWORKS_API_KEY", "api.fireworks.ai/inference"),
        "groq": Known("GROQ_API_KEY", "api.groq.com/openai"),
        "huggingface": Known("HF_TOKEN", "router.huggingface.co"),
        "inception": Known("INCEPTION_API_KEY", "api.inceptionlabs.ai"),
        "kilo": Known("KILO_API_KEY", "api.kilo.ai/api/gateway"),
        "llama": Known("LLAMA_API_KEY"),
        "minimax": Known("MINIMAX_API_KEY"),
        "minimax-cn": Known("MINIMAX_API_KEY"),
        "mistral": Known("MISTRAL_API_KEY", "api.mistral.ai"),
        "moonshotai": Known("MOONSHOT_API_KEY", "api.moonshot.ai"),
        "moonshotai-cn": Known("MOONSHOT_API_KEY", "api.moonshot.cn"),
        "nebius": Known("NEBIUS_API_KEY", "api.tokenfactory.nebius.com"),
        "novita-ai": Known("NOVITA_API_KEY", "api.novita.ai/openai"),
        "nvidia": Known("NVIDIA_API_KEY", "integrate.api.nvidia.com"),
        "ollama-cloud": Known("OLLAMA_API_KEY", "ollama.com"),
        "perplexity": Known("PERPLEXITY_API_KEY"),
        "poe": Known("POE_API_KEY", "api.poe.com"),
        "requesty": Known("REQUESTY_API_KEY", "router.requesty.ai"),
        "scaleway": Known("SCALEWAY_API_KEY", "api.scaleway.ai"),
        "siliconflow": Known("SILICONFLOW_API_KEY", "api.siliconflow.com"),
        "synthetic": Known("SYNTHETIC_API_KEY", "api.synthetic.new/openai"),
        "togetherai": Known("TOGETHER_API_KEY", "api.together.xyz"),
        "upstage": Known("UPSTAGE_API_KEY"),
        "v0": Known("V0_API_KEY"),
        "venice": Known("VENICE_API_KEY"),
        "xai": Known("XAI_API_KEY", "api.x.ai"),
        "zai": Known("ZHIPU_API_KEY"),
        "zai-coding-plan": Known("ZHIPU_API_KEY"),
        "zenmux": Known("ZENMUX_API_KEY", "zenmux.ai/api"),
        "zhipuai": Known("ZHIPU_API_KEY"),
        "zhipuai-coding-plan": Known("ZHIPU_API_KEY"),
        "amazon-bedrock": Known("AWS_BEARER_TOKEN_BEDROCK", also=("AWS_*",)),
        "google-vertex": Known("", also=("GOOGLE_*", "VERTEX_*")),
        "google-vertex-anthropic": Known("", also=("GOOGLE_*", "VERTEX_*")),
        "azure": Known("", also=("AZURE_*",)),
        "azure-cognitive-services": Known("", also=("AZURE_*",)),
        "cloudflare-ai-gateway": Known("", also=("CLOUDFLARE_*", "CF_AIG_TOKEN")),
        "cloudflare-workers-ai": Known("", also=("CLOUDFLARE_*",)),
    }
)

_PACKAGES: Final[Mapping[str, str]] = MappingProxyType({"@ai-sdk/anthropic": "anthropic", "@ai-sdk/openai": "openai"})
"""Whose service a package asks when it is given no address."""

VENDORS: Final[Mapping[str, str]] = MappingProxyType({known.host: name for name, known in KNOWN.items() if known.host})
"""Which provider is at an address (``host[/path]``), however a configuration calls it."""


def vendor_of(provider: str, package: str) -> str | None:
    """Return the known provider that ``provider`` is, by its name or by the package that its configuration gives it."""
    return provider if provider in KNOWN else _PACKAGES.get(package)
