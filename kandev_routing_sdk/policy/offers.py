"""What a person is offered after a failure, for every code in every context (R-POL-6, R-ENG-6, R-SAFE-4)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, assert_never

from kandev_routing_sdk.policy.decision import Context, DecisionKind, Offer
from kandev_routing_sdk.types import Code


class _Nature(Enum):
    """What a person can do about a cause."""

    PASSING = auto()
    """Another try may work."""
    REMEDIABLE = auto()
    """Another try works once something outside was put right."""
    WORK = auto()
    """The task, not the agent: no other route would fare better."""
    SPENT = auto()
    """The agent's session cannot go on, a new one can."""
    REFUSED = auto()
    """The same request is refused again."""
    WANTED = auto()
    """Somebody asked for the end."""


def _nature(code: Code) -> _Nature:
    match code:
        case (
            Code.NETWORK_UNAVAILABLE
            | Code.PROVIDER_UNAVAILABLE
            | Code.PROVIDER_OVERLOADED
            | Code.MODEL_CAPACITY
            | Code.RATE_LIMITED
            | Code.AGENT_TRANSPORT_LOST
            | Code.UNKNOWN_PROVIDER_ERROR
            | Code.AGENT_RUNTIME_ERROR
        ):
            return _Nature.PASSING
        case (
            Code.QUOTA_LIMITED
            | Code.SUBSCRIPTION_REQUIRED
            | Code.AUTH_REQUIRED
            | Code.MISSING_CREDENTIALS
            | Code.PROVIDER_NOT_CONFIGURED
            | Code.MODEL_UNAVAILABLE
        ):
            return _Nature.REMEDIABLE
        case Code.TASK_ERROR | Code.REPO_ERROR | Code.PERMISSION_DENIED_BY_USER:
            return _Nature.WORK
        case Code.RESUME_CORRUPTED | Code.CONTEXT_EXHAUSTED:
            return _Nature.SPENT
        case Code.CONTENT_REFUSED:
            return _Nature.REFUSED
        case Code.CANCELLED:
            return _Nature.WANTED
        case _:
            assert_never(code)


_ROUTED: Final = (Offer.RETRY_NOW, Offer.SKIP_NOW)
_WATCHED: Final = (Offer.RESUME, Offer.START_FRESH)

_STOPPED: Final[Mapping[Context, Mapping[_Nature, tuple[Offer, ...]]]] = MappingProxyType(
    {
        Context.DYNAMIC: {
            _Nature.PASSING: _ROUTED,
            _Nature.REMEDIABLE: (Offer.REMEDY, *_ROUTED),
            _Nature.WORK: _ROUTED,
            _Nature.SPENT: _ROUTED,
            # another provider has another policy
            _Nature.REFUSED: (Offer.SKIP_NOW,),
            _Nature.WANTED: (),
        },
        Context.INTERACTIVE: {
            _Nature.PASSING: _WATCHED,
            _Nature.REMEDIABLE: (Offer.REMEDY, *_WATCHED),
            _Nature.WORK: _WATCHED,
            _Nature.SPENT: (Offer.START_FRESH,),
            _Nature.REFUSED: (),
            _Nature.WANTED: (),
        },
        Context.UNATTENDED: {
            _Nature.PASSING: _ROUTED,
            _Nature.REMEDIABLE: (Offer.REMEDY, *_ROUTED),
            # a failed task is no reason to change the provider
            _Nature.WORK: (Offer.RETRY_NOW,),
            _Nature.SPENT: (Offer.RETRY_NOW,),
            _Nature.REFUSED: (),
            _Nature.WANTED: (),
        },
    }
)
_PENDING: Final[Mapping[Context, tuple[Offer, ...]]] = MappingProxyType(
    {
        Context.DYNAMIC: (*_ROUTED, Offer.CANCEL_WAIT),
        Context.INTERACTIVE: (Offer.RETRY_NOW, Offer.CANCEL_WAIT),
        Context.UNATTENDED: _ROUTED,
    }
)


def offers(context: Context, kind: DecisionKind, code: Code, *, alternative: bool = True) -> tuple[Offer, ...]:
    """Return what a person is offered. ``alternative``: whether there is another candidate or route to skip to."""
    match kind:
        case DecisionKind.WAIT | DecisionKind.RETRY:
            found = _PENDING[context]
        case DecisionKind.SKIP:
            # work goes on elsewhere; what a person can put right is worth saying all the same
            found = (Offer.REMEDY,) if _nature(code) is _Nature.REMEDIABLE else ()
        case DecisionKind.STOP:
            found = _STOPPED[context][_nature(code)]
        case _:
            assert_never(kind)
    return found if alternative else tuple(offer for offer in found if offer is not Offer.SKIP_NOW)
