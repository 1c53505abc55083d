"""What a profile is (R-PRO-1 to R-PRO-5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator

from kandev_routing_sdk.policy.document import PolicyDocument
from kandev_routing_sdk.types import Transport

PROFILE_ID: Final = r"^[a-z0-9][a-z0-9_.-]*\Z"
FAMILY_ID: Final = r"^[a-z0-9][a-z0-9_-]*\Z"
ENV_NAME: Final = r"^[A-Za-z_][A-Za-z0-9_]*\Z"
SECRET_REFERENCE: Final = r"^env:[A-Za-z_][A-Za-z0-9_]*\Z"
MAX_ID_CHARS: Final = 128
DYNAMIC_FAMILY: Final = "dynamic"
"""The built-in virtual family; no concrete profile is under it (R-PRO-2)."""

ProfileId = Annotated[str, StringConstraints(max_length=MAX_ID_CHARS), Field(pattern=re.compile(PROFILE_ID))]
FamilyId = Annotated[str, StringConstraints(max_length=MAX_ID_CHARS), Field(pattern=re.compile(FAMILY_ID))]
Version = Annotated[int, Field(ge=1)]


class _Frozen(BaseModel):
    """Never changes; an error never repeats its input, which may hold a secret."""

    # A validation message must never repeat an environment value.
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class SecretRef(_Frozen):
    """Where a secret is found at launch time: ``env:NAME``. The value itself is never part of a profile."""

    secret: Annotated[str, Field(pattern=re.compile(SECRET_REFERENCE))]


class _Profile(_Frozen):
    """What every profile has."""

    id: ProfileId
    name: str = ""
    """The only capability label there is (R-PRO-4). Default: the id."""
    description: str = ""
    icon: str | None = None
    scope: str | None = None
    """Where the profile may be used; None is everywhere."""
    enabled: bool = True
    version: Version = 1
    """Goes up with every accepted write (R-PRO-6)."""

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_id(cls, value: object) -> object:
        return {"name": value["id"], **value} if isinstance(value, Mapping) and "id" in value else value


class ConcreteProfile(_Profile):
    """A complete launch configuration of one agent family.

    What may hold a secret (``command``, ``args``, ``env``, ``options``, ``permissions``, ``mcp``) is not part of its ``repr``.
    """

    kind: Literal["concrete"] = "concrete"
    family: FamilyId
    model: str | None = None
    """None: the agent's own default."""
    transport: Transport | None = None
    """None: the adapter's best."""
    command: tuple[str, ...] | None = Field(default=None, repr=False)
    """Executable and first arguments, instead of the adapter's own search."""
    args: tuple[str, ...] = Field(default=(), repr=False)
    env: Mapping[str, str | SecretRef] = Field(default_factory=dict, repr=False)
    cwd: str | None = None
    mode: str | None = None
    """The agent's own mode."""
    options: Mapping[str, JsonValue] = Field(default_factory=dict, repr=False)
    """ACP configuration options."""
    permissions: Mapping[str, JsonValue] = Field(default_factory=dict, repr=False)
    mcp: Mapping[str, JsonValue] = Field(default_factory=dict, repr=False)
    """MCP servers by name."""
    fallback_model: str | None = None
    """Inside this profile only; never advances a candidate list (R-PRO-3)."""
    auto_fallback: bool = False
    """The profile changes providers by itself; therefore never a candidate (R-PRO-3)."""
    office_identity: bool = False
    """The profile is an Office identity; therefore never a candidate (R-PRO-3)."""


class Candidate(_Frozen):
    """One entry of a dynamic profile: which profile, and what to do when it fails. Copies nothing from it (R-PRO-5)."""

    profile_id: ProfileId
    enabled: bool = True
    policy: PolicyDocument = PolicyDocument()


class DynamicProfile(_Profile):
    """A named, versioned, ordered list of candidates. Has no launch configuration of its own (R-PRO-5)."""

    kind: Literal["dynamic"] = "dynamic"
    candidates: Annotated[tuple[Candidate, ...], Field(min_length=1)]


Profile = Annotated[ConcreteProfile | DynamicProfile, Field(discriminator="kind")]
"""Every profile carries its kind (R-PRO-2)."""
