"""Every cause with its class, its scope and what a person can do about it (R-CLS-2). A test fails when a code has no row."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kandev_routing_sdk.types import Code, ErrorClass, Scope

_T, _H, _U = ErrorClass.TRANSIENT, ErrorClass.HARD, ErrorClass.UNCLASSIFIED


class CodeRow(NamedTuple):
    """What is true of a code wherever it is used."""

    error_class: ErrorClass
    scope: Scope
    """Which resource the failure says something about (R-CIR-1), unless the rule that found it says otherwise."""
    meaning: str
    advice: str
    """What a user should do, one sentence."""


CODES: Final[Mapping[Code, CodeRow]] = MappingProxyType(
    {
        Code.NETWORK_UNAVAILABLE: CodeRow(
            _T,
            Scope.PROVIDER,
            "The provider could not be reached from this machine.",
            "Check the network, the proxy and the provider's base URL; the next candidate or a later try may work.",
        ),
        Code.PROVIDER_UNAVAILABLE: CodeRow(
            _T,
            Scope.PROVIDER,
            "The provider answered that it cannot serve anybody right now.",
            "Wait, or let another provider's candidate take over; the provider's status page says more.",
        ),
        Code.PROVIDER_OVERLOADED: CodeRow(
            _T,
            Scope.PROVIDER,
            "The provider has more requests than it can serve.",
            "Wait a moment, or let another provider's candidate take over.",
        ),
        Code.MODEL_CAPACITY: CodeRow(
            _T,
            Scope.MODEL,
            "This one model is at capacity; the provider's other models may work.",
            "Choose another model of the same provider, or wait.",
        ),
        Code.RATE_LIMITED: CodeRow(
            _T,
            Scope.ACCOUNT,
            "A short throttle: too many requests or tokens in a minute or so.",
            "Wait for the stated time; if it happens often, ask the provider for a higher rate limit.",
        ),
        Code.AGENT_TRANSPORT_LOST: CodeRow(
            _T,
            Scope.NONE,
            "The agent's process ended or its connection closed before it answered.",
            "Look at the agent's own log; what it had begun may have had effects, so inspect before sending again.",
        ),
        Code.QUOTA_LIMITED: CodeRow(
            _H,
            Scope.ACCOUNT,
            "A renewable allowance (session, week, month, plan) is used up until it resets.",
            "Wait for the reset, buy more usage, or use another account's candidate.",
        ),
        Code.SUBSCRIPTION_REQUIRED: CodeRow(
            _H,
            Scope.ACCOUNT,
            "The plan or the billing does not cover this: no credit, inactive, or not included.",
            "Fix the billing or the plan with the provider; waiting does not help.",
        ),
        Code.AUTH_REQUIRED: CodeRow(
            _H,
            Scope.ACCOUNT,
            "The provider does not accept the credentials: wrong, expired, revoked or not permitted.",
            "Sign in again with the agent's own login command, or replace the key.",
        ),
        Code.MISSING_CREDENTIALS: CodeRow(
            _H,
            Scope.PROFILE,
            "The agent has no credentials to send.",
            "Sign in with the agent's own login command, or give the profile its key.",
        ),
        Code.PROVIDER_NOT_CONFIGURED: CodeRow(
            _H,
            Scope.PROFILE,
            "The agent is not installed, cannot start, or does not know the provider.",
            "Install the agent, correct the profile's command, or configure the provider.",
        ),
        Code.MODEL_UNAVAILABLE: CodeRow(
            _H,
            Scope.MODEL,
            "The model does not exist for this account.",
            "Choose a model that the account may use.",
        ),
        Code.UNKNOWN_PROVIDER_ERROR: CodeRow(
            _U,
            Scope.NONE,
            "The provider failed in a way that no rule knows.",
            "Read the excerpt; if it is a known failure, add a rule with its fixture.",
        ),
        Code.AGENT_RUNTIME_ERROR: CodeRow(
            _U,
            Scope.NONE,
            "The agent itself failed, not its provider.",
            "Read the excerpt and the agent's own log.",
        ),
        Code.TASK_ERROR: CodeRow(
            _U,
            Scope.NONE,
            "The work failed (a tool, a test, a command), not the agent or its provider.",
            "Look at the task.",
        ),
        Code.REPO_ERROR: CodeRow(
            _U,
            Scope.NONE,
            "The repository or its work tree is not in a state to work in.",
            "Repair the repository or the work tree.",
        ),
        Code.PERMISSION_DENIED_BY_USER: CodeRow(
            _U,
            Scope.NONE,
            "A person refused what the agent asked for.",
            "Nothing; send another prompt if you changed your mind.",
        ),
        Code.CANCELLED: CodeRow(
            _U, Scope.NONE, "The turn was stopped on request.", "Nothing; send the prompt again if you want it done."
        ),
        Code.RESUME_CORRUPTED: CodeRow(
            _U,
            Scope.NONE,
            "The agent's native session cannot be continued.",
            "Start fresh; the continuation package carries what is known.",
        ),
        Code.CONTEXT_EXHAUSTED: CodeRow(
            _U,
            Scope.NONE,
            "The conversation, or the answer, is larger than the model can take.",
            "Shorten the prompt or start a fresh session.",
        ),
        Code.CONTENT_REFUSED: CodeRow(
            _U,
            Scope.NONE,
            "The provider refused the content under its policy.",
            "Change the request; another try of the same one will be refused as well.",
        ),
    }
)
