"""What a provider quotes of a request that it refuses (R-EVI-6).

A 400 may hold any words of the prompt, of a tool's description or of its output: `Invalid value: 'you have hit your usage limit'`.
A sentence decides there only if it stands where the provider begins to speak, not behind a colon or inside quotation marks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import re2

from kandev_routing_sdk.catalogue.views import View, find

_UNPROCESSABLE: Final = 422
_REFUSED: Final = frozenset({400, _UNPROCESSABLE})
_KINDS: Final = frozenset({"invalid_request", "invalid_request_error", "INVALID_ARGUMENT"})
_KIND_PATHS: Final = (("error", "type"), ("error", "status"), ("errorKind",), ("error", "errorKind"))
_LABELS: Final = re2.compile(
    r"(?i)^\W*(?:(?:internal error|api error|error|request rejected|unexpected status|bad request|unprocessable entity|[45]\d\d)\b"
    r"[\s:·|(){},-]*)*"
)
_QUOTES: Final = re2.compile(r"[\"'`«\x{201c}\x{2018}]\S|:\s")


def refuses_the_request(view: View) -> bool:
    """Whether what was said is that the request itself is wrong."""
    if view.status in _REFUSED:
        return True
    return any(
        kind in _KINDS
        for d in view.documents
        for path in _KIND_PATHS
        for kind in find(d, path)
        if isinstance(kind, str)
    )


def only_quotes(view: View, regex: Any) -> bool:  # noqa: ANN401  (a compiled pattern: the engine has no stubs)
    """Whether ``regex`` holds only for words that are quoted. A 422 speaks of the request's own content throughout."""
    if view.status == _UNPROCESSABLE:
        return True
    starts = [(text, found.start()) for text in _said(view) if (found := regex.search(text)) is not None]
    return bool(starts) and all(_QUOTES.search(_LABELS.sub("", text[: at + 1])) is not None for text, at in starts)


def _said(view: View) -> Iterator[str]:
    """Yield what the provider says: the messages of its error, or else all words."""
    messages = [m for d in view.documents for m in find(d, ("error", "message")) if isinstance(m, str)]
    yield from messages or view.text.splitlines()
