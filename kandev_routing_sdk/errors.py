"""Every exception the SDK raises on purpose.

::

    RoutingError                      code, exit_code; str() is one clear sentence with the way out
    ├── UsageError                    2   the call's own arguments
    │   ├── ProfileNotFound
    │   ├── ProfileDeclared           (in profiles) a profile of the configuration file, or of the host, is not written here
    │   └── DuplicateRefused          (in profiles) dynamic profiles are not duplicated
    ├── InputDataError                65  data given to be read (evidence, prompt files)
    ├── ConfigError                   78
    │   ├── ConfigNotFound
    │   ├── ConfigSyntaxError
    │   ├── ConfigInvalid             .problems: each one names its path in the file
    │   │   └── ProfileInvalid        (in profiles) .problems: each one names its field of the profile
    │   ├── SecretUnavailable
    │   ├── CatalogueError            a rule file that may not load
    │   ├── DynamicRoutingDisabled    the feature flag is off
    │   └── ConfigExists              (in cli) ``init`` overwrites no file
    ├── NotPermitted                  77
    ├── NoCandidate                   69  nobody enabled, compatible and launchable
    │   └── ProfileUnusable           the profile exists but may not be used (disabled, cross-scope, …)
    ├── StoreError                    73
    │   ├── StoreUnavailable
    │   ├── StoreReadOnly
    │   └── SchemaTooNew
    ├── PreconditionFailed            80
    │   ├── StaleRevision             somebody else committed first
    │   ├── StaleGeneration
    │   ├── TurnInProgress
    │   ├── IllegalTransition
    │   ├── NotAdmitted               a resource key is open, or its probe lease is taken
    │   ├── ProfileConflict           (in profiles) .current: the profile as somebody else wrote it meanwhile
    │   ├── ProfileInUse              (in profiles) .dependents: who refers to it
    │   └── DependentsUnknown         (in profiles) who refers to it could not be found out
    ├── AdapterError                  70  an adapter broke its contract
    │   └── PluginError               a plugin could not be loaded or registered
    ├── LaunchError                   69  the agent could not be started
    │   └── ExecutableNotFound
    ├── ProtocolViolation             70  the agent broke its protocol or its bounds
    ├── OutputFailed                  70  (in cli.output) standard output takes nothing
    ├── AnswerMismatch            1   (in structured) .problems: what an answer has that was not asked for
    └── CallFailed                1   (in results) a utility call that did not succeed; .result holds all that is known
        ├── AnswerUnrecorded          73  (in results) the answer is there, its record is not
        ├── CallNoCandidate           69
        ├── CallWaiting               75
        ├── CallActionRequired        79
        ├── CallTimedOut              124
        └── CallCancelled             130

``args`` rebuild the exception, so each one pickles.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, NamedTuple


class Problem(NamedTuple):
    """One thing wrong with a document (R-PRO-7)."""

    path: str
    """Where, field-addressable: ``profiles.frontier.candidates[1].policy.hard.retry.max_retries``."""
    message: str
    """What is wrong and the way out, one sentence."""
    code: str = "invalid"
    """Stable reason for programs."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class RoutingError(Exception):
    """Root of all errors of the SDK."""

    code: ClassVar[str] = "routing_error"
    exit_code: ClassVar[int] = 70

    def __str__(self) -> str:
        return " ".join(str(a) for a in self.args)


class UsageError(RoutingError):
    """The caller's own arguments are wrong."""

    code = "usage"
    exit_code = 2


class ProfileNotFound(UsageError):
    """No profile has this id (R-RES-3: there is no default to fall through to)."""

    code = "profile_not_found"
    profile_id: str
    known: tuple[str, ...]

    def __init__(self, profile_id: str, known: Sequence[str] = ()) -> None:
        super().__init__(profile_id, tuple(known))
        self.profile_id, self.known = profile_id, tuple(known)

    def __str__(self) -> str:
        names = ", ".join(self.known) or "none"
        return f"no profile {self.profile_id!r}; profiles there are: {names}"


class InputDataError(RoutingError):
    """Data that was given to be read is not what it should be."""

    code = "bad_input"
    exit_code = 65


class ConfigError(RoutingError):
    """The configuration cannot be used."""

    code = "config"
    exit_code = 78


class ConfigNotFound(ConfigError):
    """There is no configuration file where one was looked for."""

    code = "config_not_found"


class ConfigSyntaxError(ConfigError):
    """The configuration file is not TOML."""

    code = "config_syntax"


class ConfigInvalid(ConfigError):
    """The configuration file is TOML but says something that is not allowed (R-PRO-7, R-CLI-2)."""

    code = "config_invalid"
    source: str
    problems: tuple[Problem, ...]

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        super().__init__(source, tuple(problems))
        self.source, self.problems = source, tuple(problems)

    def __str__(self) -> str:
        # what a flag or a variable says wrong is not in the file
        return "; ".join(
            str(p) if p.path.startswith(("--", "KANDEV_")) else f"{self.source}: {p}" for p in self.problems
        )


class SecretUnavailable(ConfigError):
    """A secret reference points at nothing. Names the reference, never a value."""

    code = "secret_unavailable"


class CatalogueError(ConfigError):
    """A rule file may not load: duplicate id, rule without fixtures, a fixture that fails (R-CLS-4)."""

    code = "catalogue"


class DynamicRoutingDisabled(ConfigError):
    """The feature flag is off; nothing was started (R-RES-4)."""

    code = "dynamic_routing_disabled"

    def __str__(self) -> str:
        return (
            "dynamic agent routing is turned off: set dynamic_agent_routing = true under [features] in the configuration, "
            "or KANDEV_FEATURES_DYNAMIC_AGENT_ROUTING=1 in the environment"
        )


class NotPermitted(RoutingError):
    """The host's authorisation said no."""

    code = "not_permitted"
    exit_code = 77


class NoCandidate(RoutingError):
    """No candidate is enabled, compatible and launchable."""

    code = "no_candidate"
    exit_code = 69


class ProfileUnusable(NoCandidate):
    """The profile exists but may not run: disabled, of another scope, of an unknown family (R-RES-3)."""

    code = "profile_unusable"


class StoreError(RoutingError):
    """Durable state could not be read or written; nothing was launched (R-DUR-6)."""

    code = "store"
    exit_code = 73


class StoreUnavailable(StoreError):
    """The database cannot be reached or answered with an error."""

    code = "store_unavailable"


class StoreReadOnly(StoreError):
    """The database, or the folder it lives in, cannot be written."""

    code = "store_read_only"


class SchemaTooNew(StoreError):
    """The database was written by a newer version of the SDK (R-DUR-1)."""

    code = "schema_too_new"


class PreconditionFailed(RoutingError):
    """The state is not the one the caller acted on; nothing was changed."""

    code = "precondition_failed"
    exit_code = 80


class StaleRevision(PreconditionFailed):
    """Somebody else committed a transition of this session first."""

    code = "stale_revision"
    session_id: str
    expected: int

    def __init__(self, session_id: str, expected: int) -> None:
        super().__init__(session_id, expected)
        self.session_id, self.expected = session_id, expected

    def __str__(self) -> str:
        return f"session {self.session_id} has moved on from revision {self.expected}; read it again and decide anew"


class StaleGeneration(PreconditionFailed):
    """The route generation has moved on (R-ENG-7)."""

    code = "stale_generation"
    expected: int
    current: int

    def __init__(self, expected: int, current: int) -> None:
        super().__init__(expected, current)
        self.expected, self.current = expected, current

    def __str__(self) -> str:
        return f"the route is at generation {self.current}, not {self.expected}; read the snapshot and decide anew"


class TurnInProgress(PreconditionFailed):
    """A turn is running; actions and prompts wait until it settles."""

    code = "turn_in_progress"


class IllegalTransition(PreconditionFailed):
    """The state machine has no such step; nothing was changed (R-ENG-1)."""

    code = "illegal_transition"
    state: str
    trigger: str

    def __init__(self, state: str, trigger: str) -> None:
        super().__init__(state, trigger)
        self.state, self.trigger = state, trigger

    def __str__(self) -> str:
        way_out = (
            "it is over; begin another one"
            if self.state == "stopped"
            else "the actions of its snapshot are what it takes"
        )
        return f"a route in state {self.state} does not take {self.trigger}: {way_out}"


class NotAdmitted(PreconditionFailed):
    """A resource key of the candidate is open, or another holder has its probe lease (R-CIR-8)."""

    code = "not_admitted"
    key: str
    until: datetime | None

    def __init__(self, key: str, until: datetime | None) -> None:
        super().__init__(key, until)
        self.key, self.until = key, until

    def __str__(self) -> str:
        when = f" until {self.until.isoformat()}" if self.until else ""
        return f"a resource this agent needs is not available{when}"


class AdapterError(RoutingError):
    """An adapter broke its contract; its candidate is ineligible (R-PLG-2)."""

    code = "adapter"


class PluginError(AdapterError):
    """A plugin could not be loaded or registered; named, and only its families are lost (R-PLG-2)."""

    code = "plugin"


class LaunchError(RoutingError):
    """The agent could not be started; nothing was sent to it."""

    code = "launch"
    exit_code = 69


class ExecutableNotFound(LaunchError):
    """The agent's executable is not there."""

    code = "executable_not_found"


class ProtocolViolation(RoutingError):
    """The agent broke its protocol or exceeded a bound (line length, garbage before a handshake)."""

    code = "protocol_violation"
