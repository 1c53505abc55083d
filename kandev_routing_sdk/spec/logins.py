"""Which header, query parameter or option signs in, or chooses the account that is used (R-CIR-3)."""

from __future__ import annotations

import re
from typing import Final

_LOGINS: Final = re.compile(
    r"auth|key|secret|token|credential|cookie|passw|signature|jwt"  # they sign in
    r"|organi[sz]ation|project|account|tenant|workspace|team|subscription",  # they choose what is used, and who pays
    re.IGNORECASE,
)
_SHORT: Final = frozenset({"org", "orgid", "sig"})
"""Words that mean it only when they stand alone."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def carries_login(name: str) -> bool:
    """Return whether a header, query parameter or option of this name may sign in or choose an account.

    Judged by the name alone, and rather once too often: what is taken for a login costs a shared circuit, what is overlooked
    closes somebody else's.
    """
    return _LOGINS.search(name) is not None or any(word.lower() in _SHORT for word in _WORD.findall(name))
