"""What rules see of a signal: words, documents, status, headers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.patterns import to_re2
from kandev_routing_sdk.catalogue.views import View, find, views_of
from kandev_routing_sdk.types import Code, JsonValue
from tests.catalogue._shipped import classify, evidence, shipped

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def view(**signal: object) -> View:
    (made,) = views_of(evidence({"channel": "http", **signal}))
    return made


@pytest.mark.parametrize(
    ("signal", "status"),
    [
        ({"http_status": 503, "text": "API Error: 529"}, 503),
        ({"text": "API Error: 529 Overloaded"}, 529),
        ({"text": "API Error (429 Too many tokens)"}, 429),
        ({"text": "unexpected status 401 Unauthorized"}, 401),
        ({"text": "exceeded retry limit, last status: 429 Too Many Requests"}, 429),
        ({"text": "HTTP/2 429\nretry-after: 5"}, 429),
        ({"text": "refused (HTTP 401)."}, 401),
        ({"text": "status=502"}, 502),
        ({"text": "Error: 404 404 page not found"}, 404),
        ({"text": "code 429 and 1429 tokens in spec.rb:418-429"}, None),
        ({"text": "Error: 127: Command not found"}, None),
        ({"text": "Error: 429 tests failed"}, None),
        ({"text": "HTTP 999"}, None),
        ({"channel": "stderr", "text": "HTTP 503 from somewhere"}, None),
        ({"channel": "stderr", "text": "API Error: 503"}, 503),
        ({"data": {"error": {"data": {"statusCode": 429}}}}, 429),
        ({"data": {"error": {"code": 429}}}, 429),
        ({"data": {"error": {"code": -32603}}}, None),
        ({"data": {"status": "failed"}}, None),
        ({}, None),
    ],
    ids=str,
)
def test_status(signal: dict[str, object], status: int | None) -> None:
    """Said as a status, never a bare number; on stderr only in an agent's words for its provider's answer."""
    assert status == shipped().judge(evidence({"channel": "http", **signal})).views[0].status


def test_what_stood_in_somebody_elses_line_is_gone() -> None:
    """Documents and statuses of another's line are not this signal's."""
    theirs = 'MCP server x: API Error: 401 {"error": {"type": "authentication_error"}}'
    (seen,) = shipped().judge(evidence({"channel": "http", "text": f"{theirs}\nyou exceeded your monthly quota"})).views
    assert ("you exceeded your monthly quota", (), None) == (seen.text, seen.documents, seen.status)


def test_documents_in_words() -> None:
    """Several, in prose, with a line break in a string, broken ones passed over."""
    text = 'first {"a": "x\ny"} then {broken then {"b": {"c": 1}} end'
    assert ({"a": "x\ny"}, {"b": {"c": 1}}) == view(text=text).documents


def test_documents_in_fields() -> None:
    """A list of errors is its items; a body given as a string is read too."""
    assert ({"error": {"code": 1}}, {"error": {"code": 2}}) == view(
        data=[{"error": {"code": 1}}, {"error": {"code": 2}}]
    ).documents
    body: JsonValue = {"error": {"data": {"responseBody": '{"error": {"type": "overloaded_error"}}'}}}
    assert {"error": {"type": "overloaded_error"}} in view(data=body).documents
    assert {"error": {"type": "x"}} in view(text='{"message": " {\\"error\\": {\\"type\\": \\"x\\"}}"}').documents
    assert {"message": "{broken"} == view(text='{"message": "{broken"}').documents[0]


def test_words_of_fields_are_read_once() -> None:
    """Under speaking keys, and not again where the text says them already."""
    seen = view(
        text="it broke", data={"message": "it broke", "error": {"detail": ["x", {"title": "why"}]}, "path": "secret"}
    )
    assert "it broke\nwhy" == seen.text


def test_headers() -> None:
    """Names without case; a printed header block is one."""
    assert {"retry-after": "5"} == view(headers={"Retry-After": "5"}).headers
    assert {"x-codex-plan-type": "free"} == view(text="HTTP/2 429\nX-Codex-Plan-Type: free\n\nbody").headers
    assert {} == view(text="HTTP/ is a protocol\nx-y: z").headers


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b", [1]),
        ("list.1", [20]),
        ("list.9", []),
        ("list.x", []),
        ("list.*", [10, 20]),
        ("*.b", [1]),
        ("a.b.c", []),
        ("zzz", []),
    ],
)
def test_paths(path: str, found: list[int]) -> None:
    """Keys, list indexes, any."""
    assert found == list(find({"a": {"b": 1}, "list": [10, 20]}, tuple(path.split("."))))


@pytest.mark.parametrize(
    ("pattern", "compiled"),
    [
        ("a b", r"(?m)a(?:\s+)b"),
        ("a ?b", r"(?m)a(?:\s+)?b"),
        ("[a b]", r"(?m)[a\sb]"),
        ("you've", r"(?m)you['’]ve"),
        ("[']", r"(?m)['’]"),
        (r"a\ b\'", r"(?m)a\ b\'"),
    ],
)
def test_spaces_and_apostrophes(pattern: str, compiled: str) -> None:
    """Any white space, either apostrophe."""
    assert compiled == to_re2(pattern)


def test_when_a_cause_is_over() -> None:
    """An instant as it is; a wait from when it was seen, else from now; nothing without a hint."""
    base = classify({"channel": "http", "http_status": 429})

    def with_(**change: object) -> Classification:
        return base.model_copy(update=change)

    hour = timedelta(hours=1)
    assert (Code.RATE_LIMITED, None) == (base.code, base.due_at(NOW))
    assert NOW + hour == with_(reset_at=NOW + hour, retry_after=timedelta(days=1)).due_at(NOW)
    assert NOW + hour == with_(retry_after=hour).due_at(NOW)
    assert NOW == with_(retry_after=hour, occurred_at=NOW - hour).due_at(NOW + hour)
