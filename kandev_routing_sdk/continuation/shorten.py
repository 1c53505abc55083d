"""Cuts texts that may hold secrets: clean before cutting, for half a secret has lost its shape (R-EVI-5)."""

from __future__ import annotations

from typing import Final

from kandev_routing_sdk.route.continuation import CUT, Cleaner, cut

LOOKED_AT: Final = 16 * 1024
"""Characters of a text that are looked at; what is shown of it is a small part of them."""
CUT_BEFORE: Final = "[…cut] "


def beginning(text: str, limit: int, clean: Cleaner) -> str | None:
    """Return the beginning of ``text`` within ``limit`` bytes; None where what was left out may have been the rest of a secret."""
    whole = len(text) <= LOOKED_AT
    cleaned = clean(text if whole else text[:LOOKED_AT])
    return cut(cleaned, limit) if whole or _size(cleaned) > limit else None


def ending(text: str, limit: int, clean: Cleaner) -> str | None:
    """Return the end of ``text`` within ``limit`` bytes; None as :func:`beginning` does."""
    whole = len(text) <= LOOKED_AT
    cleaned = clean(text if whole else text[-LOOKED_AT:])
    raw = cleaned.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw.decode() if whole else None
    room = limit - len(CUT_BEFORE.encode())
    return CUT_BEFORE + raw[len(raw) - room :].decode("utf-8", "ignore") if room > 0 else ""


def line(text: str, limit: int, clean: Cleaner) -> str:
    """Return ``text`` on one line, within ``limit`` bytes."""
    return beginning(" ".join(text[: LOOKED_AT + 1].split()), limit, clean) or CUT.strip()


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
