"""Turns a concrete profile into something that can be launched, starting no process (R-ENG-2).

Here the child's environment is put together: neutral variables of the host, those of the agent's own family, then the profile's
literals and secrets. No family ever sees another one's variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from traceback import extract_tb
from typing import Final

from pydantic import ValidationError

from kandev_routing_sdk.binding import fingerprint
from kandev_routing_sdk.circuits import ResourceIdentity, ResourceKey, consulted_keys
from kandev_routing_sdk.conductor.engine import Engine
from kandev_routing_sdk.conductor.given import folder_problem
from kandev_routing_sdk.conductor.known_secrets import known_secrets
from kandev_routing_sdk.conductor.native import NativeSession
from kandev_routing_sdk.errors import ProfileUnusable, RoutingError, SecretUnavailable
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.profiles import ConcreteProfile, SecretRef
from kandev_routing_sdk.spec.adapter import AgentAdapter, LaunchPlan, LaunchRequest
from kandev_routing_sdk.types import Transport

NEUTRAL_VARIABLES: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "NO_COLOR", "TMPDIR", "TMP",
    "TEMP", "XDG_*", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY",
    "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "SSH_AUTH_SOCK", "GIT_*",
    "SYSTEMROOT", "DBUS_SESSION_BUS_ADDRESS", "VIRTUAL_ENV", "PYENV_*", "NVM_*",
)  # fmt: skip
"""Name patterns of host variables that every agent gets."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A candidate that can be launched, and the health keys it stands on."""

    profile: ConcreteProfile
    adapter: AgentAdapter
    plan: LaunchPlan
    identity: ResourceIdentity
    keys: tuple[ResourceKey, ...]
    cleaner: Sanitiser = field(repr=False)
    resume_session_id: str | None = field(default=None, repr=False)
    """The profile's own native session, if its plan goes on with that."""


@dataclass(frozen=True, slots=True)
class Unlaunchable:
    """A candidate that cannot be launched, and why."""

    profile_id: str
    family: str
    reason: str
    detail: str


def prepare(engine: Engine, profile_id: str, cwd: Path, native: NativeSession | None = None) -> Prepared | Unlaunchable:
    """Resolve a concrete profile's launch. Never raises for what a profile, an adapter or a secret does.

    ``native``: a session to go on with, if it is this profile's.
    """
    try:
        profile = engine.profiles.get(profile_id)
    except ProfileUnusable as problem:
        return Unlaunchable(profile_id, "", "not_launchable", str(problem))
    if profile is None:
        return Unlaunchable(profile_id, "", "missing", f"profile {profile_id!r} does not exist any more")
    if not isinstance(profile, ConcreteProfile):
        return Unlaunchable(
            profile_id, "", "incompatible", f"profile {profile_id!r} is dynamic and cannot be a candidate"
        )
    if not profile.enabled:
        return Unlaunchable(profile_id, profile.family, "disabled", f"profile {profile_id!r} is disabled")
    adapter = engine.registry.get(profile.family)
    if adapter is None:
        return Unlaunchable(profile_id, profile.family, "not_launchable", _no_adapter(engine, profile.family))
    try:
        return _prepare(engine, profile, adapter, cwd, native)
    except RoutingError as problem:
        return Unlaunchable(profile_id, profile.family, "not_launchable", str(problem))
    except Exception as problem:  # noqa: BLE001  # adapter code of a third party: its candidate is ineligible (R-PLG-2)
        detail = (
            f"the {profile.family} adapter failed while planning the launch ({type(problem).__name__}{_place(problem)})"
        )
        return Unlaunchable(profile_id, profile.family, "not_launchable", detail)


def _prepare(
    engine: Engine, profile: ConcreteProfile, adapter: AgentAdapter, cwd: Path, native: NativeSession | None
) -> Prepared | Unlaunchable:
    problems = [*adapter.validate(profile)]
    if problems:
        text = "; ".join(f"profiles.{profile.id}.{p}" for p in problems)
        return Unlaunchable(profile.id, profile.family, "not_launchable", text)
    folder = cwd / (profile.cwd or ".")
    problem = folder_problem(folder)
    # not tried: that failure would open a circuit of the profile, for every other session (R-CIR-2)
    if problem is not None:
        which = f"the working directory {cwd.name!r}"
        if profile.cwd:
            which = f"profiles.{profile.id}.cwd: {profile.cwd!r} below {which}"
        detail = f"{which} {problem}; make it usable, or change cwd"
        return Unlaunchable(profile.id, profile.family, "not_launchable", detail)
    secrets = _resolved(engine, profile)
    literals = {n: v for n, v in profile.env.items() if isinstance(v, str)}
    environ = inherited(engine.environ, adapter.inherits) | literals | secrets
    request = LaunchRequest(
        profile=profile,
        environ=environ,
        cwd=folder,
        executor_namespace=engine.executor_namespace,
        resume_session_id=None if native is None else native.for_profile(profile),
        full_environ={**engine.environ, **literals, **secrets},
    )
    try:
        plan = _plan(adapter, request, native)
    except ValidationError:
        # a descriptor refused by its validator: pydantic's text would be about the adapter's code, not about the user's profile
        detail = f"the {profile.family} adapter could not describe the credential of profile {profile.id!r}"
        return Unlaunchable(profile.id, profile.family, "not_launchable", detail)
    if not isinstance(plan, LaunchPlan):
        return Unlaunchable(
            profile.id, profile.family, "not_launchable", f"the {profile.family} adapter returned no LaunchPlan"
        )
    identity = ResourceIdentity(
        provider_id=plan.provider_id,
        model_id=plan.model_id,
        binding=fingerprint(plan.descriptor, engine.key) if plan.descriptor and plan.provider_id else None,
        profile_id=profile.id,
        executor_namespace=engine.executor_namespace,
    )
    known = known_secrets(profile, plan.environ, literals, (*secrets.values(), *plan.secrets))
    token = request.resume_session_id if plan.resumed else None
    return Prepared(profile, adapter, plan, identity, consulted_keys(identity), Sanitiser(known), token)


def _plan(adapter: AgentAdapter, request: LaunchRequest, native: NativeSession | None) -> object:
    plan: object = adapter.plan(request)
    if not isinstance(plan, LaunchPlan) or not plan.resumed:
        return plan
    if request.resume_session_id is None:
        return replace(plan, resumed=False)  # there was nothing to go on with
    if plan.transport is Transport.HEADLESS and native is not None and not native.answered:
        # it opens its session with its prompt: one that it does not find would fail the turn, and nothing is lost in this one
        return adapter.plan(replace(request, resume_session_id=None))
    return plan


def _resolved(engine: Engine, profile: ConcreteProfile) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in profile.env.items():
        if isinstance(value, SecretRef):
            try:
                values[name] = engine.secrets.resolve(value.secret)
            except SecretUnavailable as problem:
                raise SecretUnavailable(f"env.{name}: {problem}") from None
    return values


def inherited(environ: Mapping[str, str], own: Iterable[str]) -> dict[str, str]:
    """Return the host variables that an agent with these own patterns gets."""
    patterns = (*NEUTRAL_VARIABLES, *own)
    return {n: v for n, v in environ.items() if any(fnmatchcase(n, p) for p in patterns)}


def _place(problem: BaseException) -> str:
    """Where it happened, for the adapter's author; not what it said, which may hold a secret."""
    frames = extract_tb(problem.__traceback__)
    return f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _no_adapter(engine: Engine, family: str) -> str:
    broken = "".join(f"; plugin {b.name!r} could not be loaded ({b.problem})" for b in engine.registry.broken)
    known = ", ".join(sorted(engine.registry.adapters)) or "none"
    near = get_close_matches(family, engine.registry.adapters, 1)
    meant = f"did you mean {near[0]!r}? Else " if near else ""
    return (
        f"no adapter for family {family!r} is installed (installed: {known}); "
        f"{meant}install kandev-routing-{family}{broken}"
    )
